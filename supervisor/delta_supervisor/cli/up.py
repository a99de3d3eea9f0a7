"""`up`: a stack in the foreground with words for people, or started by a relay and silent."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from delta_protocol.errors import DeltaError, Failure
from delta_supervisor.cli.options import CONFIGURATION, DONE, INTERNAL, READY, exit_code
from delta_supervisor.cli.output import print_progress
from delta_supervisor.control.messages import StackStatus
from delta_supervisor.load import Flags, Loaded, load
from delta_supervisor.lock import StateDirLocked
from delta_supervisor.prepare import Ground, prepare
from delta_supervisor.zygote import PRELOAD, launch


def run_auto(flags: Flags, ready_fd: int) -> int:
    """Run the stack that a relay asked for; it is told over `ready_fd` that the sockets are bound, or why not."""
    os.set_inheritable(ready_fd, False)
    with open(ready_fd, "wb", buffering=0) as ready:

        def bound() -> None:
            ready.write(READY)
            ready.close()

        try:
            return _run(flags, auto=True, on_bound=bound, report=print_progress, on_ready=lambda _: None)
        except DeltaError as error:
            print_progress(f"error: {error.message}")
            if not ready.closed:
                detail = {**error.detail, "locked": True} if isinstance(error, StateDirLocked) else error.detail
                ready.write(msgspec.json.encode(Failure(error.code, error.message, detail)))
            return exit_code(error)


def run_foreground(flags: Flags, *, report: Callable[[str], None], on_ready: Callable[[StackStatus], None]) -> int:
    """Run the stack until it is stopped; returns the exit code. Raises `DeltaError` when it cannot start."""
    return _run(flags, auto=False, on_bound=lambda: None, report=report, on_ready=on_ready)


def _run(
    flags: Flags,
    *,
    auto: bool,
    on_bound: Callable[[], None],
    report: Callable[[str], None],
    on_ready: Callable[[StackStatus], None],
) -> int:
    # First of all, so that it imports while this process does.
    launched = launch(PRELOAD)
    ground: Ground | None = None
    try:
        loaded = load(flags, os.environ, Path.cwd())
        ground = prepare(loaded, os.environ, command=" ".join(sys.argv), lenient=auto)
        on_bound()
        _tell(loaded, ground, report)
        return _serve(ground, launched, auto=auto, report=report, on_ready=on_ready)
    finally:
        launched[0].close()
        if ground is not None:
            ground.close()


def _serve(
    ground: Ground,
    launched: tuple[socket.socket, int],
    *,
    auto: bool,
    report: Callable[[str], None],
    on_ready: Callable[[StackStatus], None],
) -> int:
    import trio

    from delta_actors.runtime.supervising import CannotStart, RestartIntensityExceeded
    from delta_supervisor.notify import Notifier
    from delta_supervisor.spawn import Zygote
    from delta_supervisor.stack import Stack

    async def serve() -> None:
        zygote = Zygote(launched=launched, report=report)
        await Stack(ground, zygote, auto=auto, report=report, on_ready=on_ready, notifier=Notifier(os.environ)).run()

    code = DONE
    try:
        trio.run(serve)
    except* RestartIntensityExceeded as group:
        report(f"error: {group.exceptions[0]}")
        code = CONFIGURATION if isinstance(group.exceptions[0], CannotStart) else INTERNAL
    except* KeyboardInterrupt:
        report("ended at once")
        code = INTERNAL
    return code


def _tell(loaded: Loaded, ground: Ground, report: Callable[[str], None]) -> None:
    report(f"state directory {loaded.state_dir}")
    for file in loaded.files:
        report(f"configuration {file}")
    for note in ground.notes:
        report(f"note: {note}")
    for name, fault in loaded.faults.items():
        report(f"connector {name} cannot start: {fault}")

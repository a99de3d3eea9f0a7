"""The zygote: imports once, then forks one actor process per request (`python -m delta_supervisor.zygote`).

Single-threaded, runs no trio, holds no secrets and no sockets but its control. One request is one SEQPACKET message of
JSON, `{"name"}`, with the actor's descriptors attached: control, link, then the sockets to the outside. The answer is
`{"pid"}`, or `{"error"}`. An actor is forked twice, so that the supervisor (a subreaper) becomes its parent.

When the supervisor is gone the actors end by themselves, because their control sockets close. What is still there
after `GRACE` seconds (stopped or stuck) is killed from here.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

PRELOAD = (
    "trio",
    "msgspec",
    "tricycle",
    "delta_protocol.config",
    "delta_protocol.wire.control",
    "delta_protocol.wire.journal",
    "delta_protocol.wire.registry",
    "delta_protocol.wire.sandbox",
    "delta_protocol.wire.results",
    "delta_protocol.wire.auth",
    "delta_actors.runtime.process",
    "delta_actors.transport",
    "delta_actors.registry",
    "delta_actors.journal",
)
"""What actors need, imported once and shared by all of them. What is heavy is not among it: an actor's package imports
that on use."""

GRACE = 15.0
MAX_MESSAGE = 64 << 10
MAX_DESCRIPTORS = 32


def launch(preload: Sequence[str]) -> tuple[socket.socket, int]:
    """Start a zygote that imports `preload`; return the supervisor's end of its control socket, and its pid.

    Before anything heavy is imported here, so that both import side by side. Not through trio, whose own spawning
    forks in a worker thread.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        os.set_inheritable(theirs.fileno(), True)
        arguments = [sys.executable, "-m", "delta_supervisor.zygote", str(theirs.fileno()), *preload]
        pid = os.posix_spawn(
            sys.executable,
            arguments,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsid=True,
            setsigmask=(),
        )
    ours.setblocking(False)
    return ours, pid


def main() -> int:
    """Serve until the control socket closes. Arguments: its descriptor, then the modules to import."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.disable()
    gc.collect()
    gc.freeze()
    alive: dict[int, int] = {}
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, MAX_DESCRIPTORS)
        if not data:
            break
        request = json.loads(data)
        try:
            pid = _fork(control, request, descriptors, alive)
            answer: dict[str, object] = {"pid": pid}
            with contextlib.suppress(ProcessLookupError):
                alive[pid] = os.pidfd_open(pid)
        except OSError as error:
            answer = {"error": f"cannot start {request['name']}: {error.strerror}"}
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            control.send(json.dumps(answer).encode())
        except OSError:
            break
        _forget_ended(alive)
    _end(alive)
    return 0


def _fork(control: socket.socket, request: dict[str, str], descriptors: list[int], alive: dict[int, int]) -> int:
    """Fork the actor and return its pid, once the middle process is gone and the supervisor has adopted it."""
    reading, writing = os.pipe()
    middle = os.fork()
    if middle:
        os.close(writing)
        with open(reading, "rb") as pipe:
            text = pipe.read()
        os.waitpid(middle, 0)
        if not text:
            raise OSError(0, "it could not be forked")
        return int(text)
    os.close(reading)
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    control.close()
    for descriptor in alive.values():
        os.close(descriptor)
    return _become(request, descriptors)


def _become(request: dict[str, str], descriptors: list[int]) -> NoReturn:
    """Be the actor until it ends."""
    code = 70
    try:
        os.setsid()
        with open("/proc/self/comm", "w") as comm:
            comm.write(f"delta:{request['name']}")
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.enable()
        from delta_actors.runtime.process import main as run

        code = run(descriptors[0], descriptors[1], descriptors[2:])
    except BaseException as error:  # noqa: BLE001 - the process's boundary
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forget_ended(alive: dict[int, int]) -> None:
    for pid in _ended(alive, 0.0):
        os.close(alive.pop(pid))


def _ended(alive: dict[int, int], seconds: float) -> list[int]:
    """Return the pids of `alive` (pid to pidfd) that have ended, waiting up to `seconds` for a first one."""
    poll = select.poll()
    pids = {descriptor: pid for pid, descriptor in alive.items()}
    for descriptor in pids:
        poll.register(descriptor, select.POLLIN)
    return [pids[descriptor] for descriptor, _ in poll.poll(seconds * 1000)]


def _end(alive: dict[int, int]) -> None:
    deadline = time.monotonic() + GRACE
    while alive and (left := deadline - time.monotonic()) > 0:
        for pid in _ended(alive, left):
            os.close(alive.pop(pid))
    for pid, descriptor in alive.items():
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())

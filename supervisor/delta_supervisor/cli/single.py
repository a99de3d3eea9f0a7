"""`actor NAME`: one actor under a service manager, which holds its sockets and restarts it.

Tokens between separately started actors are derived from one key file of the state directory (mode 0600): whoever can
read it is the same user, and may act for any of them.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
from pathlib import Path

import msgspec

from delta_protocol.config import SupervisionConfig
from delta_protocol.errors import Refused
from delta_protocol.wire.control import Admission, Grant
from delta_protocol.wire.hello import token_digest
from delta_protocol.wire.message import Role
from delta_protocol.wire.table import ASKS, callers_of
from delta_supervisor.cli.options import CONFIGURATION, DONE, INTERNAL
from delta_supervisor.cli.output import print_progress
from delta_supervisor.load import Flags, load
from delta_supervisor.places import make_private, runtime_dir
from delta_supervisor.sockets import take_inherited

KEY_NAME = "links.key"
_KEY_BYTES = 32
_NO_RESTARTS = SupervisionConfig(max_restarts=0)
"""Restarting is the service manager's."""


def run_single(role: Role, flags: Flags) -> int:
    """Run `role` until the service manager ends it; returns the exit code. Raises `Refused` without its sockets."""
    loaded = load(flags, os.environ, Path.cwd())
    inherited = take_inherited(os.environ)
    if "link" not in inherited:
        raise Refused(
            f"`actor {role}` is started by a service manager that passes its socket, named `link` (LISTEN_FDS); "
            "to run everything use `delta-supervisor up`"
        )
    import trio

    from delta_actors.runtime.supervising import CannotStart, RestartIntensityExceeded
    from delta_supervisor.child import Child
    from delta_supervisor.notify import Notifier
    from delta_supervisor.service import Service
    from delta_supervisor.spawn import Zygote
    from delta_supervisor.supervisor import Supervisor

    key = _key(make_private(loaded.state_dir))
    run = make_private(runtime_dir(loaded.state_dir))
    child = Child(
        role,
        inherited["link"][0],
        sockets=_outside(role, inherited),
        grants=tuple(Grant(callee, str(run / f"{callee}.sock"), _token(key, role, callee)) for callee in ASKS[role]),
        admissions=tuple(Admission(caller, token_digest(_token(key, caller, role))) for caller in callers_of(role)),
    )

    async def main() -> None:
        zygote = Zygote(report=print_progress)
        supervisor = Supervisor(
            [child],
            zygote=zygote,
            config=msgspec.structs.replace(loaded.config, supervision=_NO_RESTARTS),
            state_dir=loaded.state_dir,
            runtime_dir=run,
            report=print_progress,
        )
        await Service(supervisor, zygote, Notifier(os.environ), report=print_progress).run()

    code = DONE
    try:
        trio.run(main)
    except* RestartIntensityExceeded as group:
        print_progress(f"error: {group.exceptions[0]}")
        code = CONFIGURATION if isinstance(group.exceptions[0], CannotStart) else INTERNAL
    return code


def _outside(role: Role, inherited: dict[str, list[socket.socket]]) -> dict[str, socket.socket]:
    if role is not Role.TRANSPORT:
        return {}
    return {name: inherited[name][0] for name in ("mcp", "http") if name in inherited}


def _token(key: bytes, caller: str, callee: str) -> bytes:
    return hmac.new(key, f"{caller} asks {callee}".encode(), "sha256").digest()


def _key(state_dir: Path) -> bytes:
    """Return the key of this state directory, made by whoever comes first."""
    file = state_dir / KEY_NAME
    fresh = state_dir / f"{KEY_NAME}.{os.getpid()}"
    if not file.exists():
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing:
            writing.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, file)
        fresh.unlink()
    return file.read_bytes()

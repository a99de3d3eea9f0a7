"""Start or join: the one running stack of a state directory, whoever came first."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from delta_protocol.errors import ActorUnavailable, Failure, Refused, from_failure
from delta_supervisor.cli.options import AUTO, READY, READY_FD
from delta_supervisor.control.client import ControlClient, NoStack
from delta_supervisor.control.messages import RELAY_SOCKET
from delta_supervisor.load import Loaded
from delta_supervisor.lock import is_held
from delta_supervisor.places import make_private, runtime_dir

START_TIMEOUT = 30.0
"""Seconds until a stack that was started must have bound its sockets."""

LOG_NAME = "stack.log"
_RETRY = 0.02


class DifferentConfiguration(Refused):
    """The running stack was configured differently; `detail["differing"]` names the values."""


class Membership:
    """Attached to a running stack: `client` keeps it alive, `started` says whether it was started for us."""

    def __init__(self, client: ControlClient, *, started: bool) -> None:
        self.client = client
        self.started = started


def join(loaded: Loaded, arguments: Sequence[str]) -> Membership:
    """Return an attachment to the stack of `loaded.state_dir`, starting it with `up` and `arguments` if need be.

    Raises `DifferentConfiguration`, `ActorUnavailable`, or what the starting stack refused with.
    """
    run = runtime_dir(loaded.state_dir)
    started = False
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            client = ControlClient(run)
        except NoStack:
            if is_held(loaded.state_dir):
                _wait(deadline, loaded.state_dir)
            else:
                started = start(loaded.state_dir, arguments, deadline) or started
            continue
        try:
            _attach(client, loaded)
        except NoStack:
            client.close()
            _wait(deadline, loaded.state_dir)
            continue
        except BaseException:
            client.close()
            raise
        return Membership(client, started=started)


def connect(state_dir: Path) -> socket.socket:
    """Return a connection for one MCP session. Raises `OSError` when no stack listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(runtime_dir(state_dir) / RELAY_SOCKET))
    except OSError:
        connection.close()
        raise
    return connection


def start(state_dir: Path, arguments: Sequence[str], deadline: float) -> bool:
    """Start a stack of its own session and wait until its sockets are bound; whether it was ours that came first.

    Raises what the stack refused with. It outlives this process: it is nobody's child but init's.
    """
    make_private(state_dir)
    reading, writing = os.pipe()
    try:
        _detach(state_dir, [*arguments, READY_FD, str(writing)], writing)
    finally:
        os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:
        answer = b""
        while True:
            readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            chunk = pipe.read(64 << 10) if readable else b""
            if not readable:
                raise ActorUnavailable(f"the stack did not start in time; see {state_dir / LOG_NAME}")
            if not chunk:
                break
            answer += chunk
    if answer == READY:
        return True
    if not answer:
        raise ActorUnavailable(f"the stack ended while starting; see {state_dir / LOG_NAME}")
    failure = msgspec.json.decode(answer, type=Failure)
    if failure.detail.get("locked"):
        return False
    raise from_failure(failure)


def _detach(state_dir: Path, arguments: Sequence[str], keep: int) -> None:
    """Run `delta-supervisor up --auto` with `arguments`, forked twice so that it is adopted by init."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.set_inheritable(keep, True)
        log = os.open(state_dir / LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execv(sys.executable, [sys.executable, "-m", "delta_supervisor", "up", AUTO, *arguments])  # noqa: S606
    finally:
        os._exit(70)


def _attach(client: ControlClient, loaded: Loaded) -> None:
    attached = client.attach(loaded.fingerprints() if loaded.chosen else None)
    if attached.differing:
        raise DifferentConfiguration(
            f"the running stack (process {attached.pid}) was configured differently: "
            f"{', '.join(_grouped(attached.differing))} differ; stop it with `delta-supervisor down`, "
            "use its configuration, or choose another --state-dir",
            differing=list(attached.differing),
        )


def _grouped(names: Sequence[str]) -> list[str]:
    """Return dotted names, a connector of which several values differ as one."""
    connectors = [".".join(name.split(".")[:2]) if name.startswith("connectors.") else name for name in names]
    several = {each for each in connectors if connectors.count(each) > 1}
    return list(
        dict.fromkeys(group if group in several else name for group, name in zip(connectors, names, strict=True))
    )


def _wait(deadline: float, state_dir: Path) -> None:
    if time.monotonic() > deadline:
        raise ActorUnavailable(f"the stack of {state_dir} is starting or stopping for too long; try again")
    time.sleep(_RETRY)

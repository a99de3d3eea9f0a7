"""Everything a stack holds before its first actor starts: the state directory's lock, and all listening sockets."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from delta_protocol.errors import Refused
from delta_protocol.wire.message import Role
from delta_supervisor.control.messages import CONTROL_SOCKET, RELAY_SOCKET
from delta_supervisor.load import ConfigurationError, Loaded
from delta_supervisor.lock import StateLock
from delta_supervisor.places import make_private, runtime_dir
from delta_supervisor.sockets import bind_tcp, bind_unix, take_inherited

ACTORS = (Role.AUTH, Role.REGISTRY, Role.SANDBOX, Role.JOURNAL, Role.RESULTS, Role.TRANSPORT)
"""The stack's actors in start order; stopped in reverse, so that the front closes first."""


@dataclass(slots=True)
class Ground:
    """What is held for the stack's whole life. `links` are the actors' listening sockets, by role."""

    loaded: Loaded
    lock: StateLock
    runtime_dir: Path
    links: dict[Role, socket.socket] = field(default_factory=dict[Role, socket.socket])
    outside: dict[str, socket.socket] = field(default_factory=dict[str, socket.socket])
    control: socket.socket | None = None
    notes: list[str] = field(default_factory=list[str])

    def address(self, role: Role) -> str:
        """Where `role` listens for other actors."""
        return str(self.runtime_dir / f"{role}.sock")

    def unlist(self) -> None:
        """Take away the names under which newcomers find the stack; who is connected stays so."""
        if not self.lock.is_ours:
            return
        for name in (CONTROL_SOCKET, RELAY_SOCKET):
            with suppress(OSError):
                (self.runtime_dir / name).unlink()

    def close(self) -> None:
        """Give everything back; the lock last."""
        self.unlist()
        if self.lock.is_ours:
            for role in self.links:
                with suppress(OSError):
                    Path(self.address(role)).unlink()
        for listener in (*self.links.values(), *self.outside.values(), *([self.control] if self.control else [])):
            listener.close()
        self.lock.release()


def prepare(loaded: Loaded, environment: MutableMapping[str, str], *, command: str, lenient: bool = False) -> Ground:
    """Take the lock and bind or inherit every socket. With `lenient` a taken HTTP port is a note instead of an error.

    Raises `StateDirLocked`, `Refused`.
    """
    state_dir = make_private(loaded.state_dir)
    lock = StateLock.acquire(state_dir, command)
    ground = Ground(loaded, lock, runtime_dir(state_dir), notes=list(loaded.notes))
    try:
        make_private(ground.runtime_dir)
        for role in ACTORS:
            ground.links[role] = bind_unix(Path(ground.address(role)))
        ground.outside["mcp"] = bind_unix(ground.runtime_dir / RELAY_SOCKET)
        _bind_http(ground, environment, lenient)
        # Last, so that who can ask the stack finds all of it.
        ground.control = bind_unix(ground.runtime_dir / CONTROL_SOCKET)
    except BaseException:
        ground.close()
        raise
    return ground


def _guarded(ground: Ground, listener: socket.socket) -> socket.socket:
    """Return `listener`; refuse one that other machines can reach where they would need no token (acceptance 78)."""
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        listener.close()
        raise ConfigurationError("the service manager's socket `http` is no TCP socket", path="http.host")
    host = listener.getsockname()[0]
    if ground.loaded.config.auth.asks or ipaddress.ip_address(host).is_loopback:
        return listener
    listener.close()
    raise ConfigurationError(
        f"{host} (`http.host`, or a socket of the service manager) can be reached from other machines and no token is "
        "required: set `auth.require_token` to true and make tokens with `delta-supervisor token add NAME`, or "
        '`auth.mode` to "oauth", or take 127.0.0.1',
        path="http.host",
    )


def _bind_http(ground: Ground, environment: MutableMapping[str, str], lenient: bool) -> None:
    inherited = take_inherited(environment)
    given = inherited.pop("http", [])
    for spare in (*given[1:], *(listener for group in inherited.values() for listener in group)):
        spare.close()
    http = ground.loaded.config.http
    if given:
        ground.outside["http"] = _guarded(ground, given[0])
    elif http.enabled:
        try:
            ground.outside["http"] = _guarded(ground, bind_tcp(http.host, http.port))
        except Refused as error:
            if not lenient:
                raise
            ground.notes.append(f"no HTTP: {error.message}")

"""Listening sockets that outlive actors: bound here or inherited from a service manager, passed on at each start."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from pathlib import Path

from delta_protocol.errors import Refused

BACKLOG = 1024
_FIRST_INHERITED = 3


def bind_unix(path: Path) -> socket.socket:
    """Return a listening socket at `path`, replacing a dead one. Only for the holder of the stack's lock."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Refused(f"cannot listen at {path}: {error.strerror}") from None
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """Return a listening socket at the first address of `host`; port 0 takes a free one.

    Raises `Refused`, saying what to do, when the address is taken or not ours.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise Refused(f"`http.host` {host!r} is no address of this machine: {error.strerror}") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Refused(
            f"cannot listen at {host}:{port}: {error.strerror}; choose another port with --port (0 takes a free one)"
        ) from None
    return listener


def take_inherited(environment: MutableMapping[str, str]) -> dict[str, list[socket.socket]]:
    """Return the sockets that a service manager passed to this process, by name (sd_listen_fds_with_names(3)).

    The variables are removed, so that no child takes them for its own. Empty when they are meant for another process.
    """
    pid = environment.pop("LISTEN_PID", "")
    count = environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "")
    if pid != str(os.getpid()) or not count.isdigit():
        return {}
    labels = names.split(":") if names else []
    taken: dict[str, list[socket.socket]] = {}
    for index in range(int(count)):
        descriptor = _FIRST_INHERITED + index
        os.set_inheritable(descriptor, False)
        listener = socket.socket(fileno=descriptor)
        listener.setblocking(False)
        label = labels[index] if index < len(labels) else "unknown"
        taken.setdefault(label, []).append(listener)
    return taken

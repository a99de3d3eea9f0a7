"""What an actor is given at its birth, and how a parent makes it: sockets, and tokens along the ask table."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from delta_protocol.config import StackConfig
from delta_protocol.wire.control import Admission, Grant
from delta_protocol.wire.hello import token_digest
from delta_protocol.wire.table import ASKS

BACKLOG = 128
"""Connections that wait while an actor restarts."""

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Birth:
    """What an actor is given by its parent. `sockets["link"]` is where other actors connect."""

    role: str
    incarnation: int
    config: StackConfig
    state_dir: Path
    runtime_dir: Path
    sockets: Mapping[str, socket.socket]
    grants: tuple[Grant, ...] = ()
    admissions: tuple[Admission, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """One role's rights: whom it may ask, and who may ask it."""

    grants: tuple[Grant, ...]
    admissions: tuple[Admission, ...]


def make_credentials(addresses: Mapping[str, str], asks: Mapping[str, frozenset[str]] = ASKS) -> dict[str, Credentials]:
    """Make a token for every edge of the ask table. `addresses` says where each callee listens.

    Roles without an address are left out as callees. Tokens are fresh in every run of a stack and never stored.
    """
    tokens = {
        (caller, callee): secrets.token_bytes(TOKEN_BYTES)
        for caller, callees in asks.items()
        for callee in callees
        if callee in addresses
    }
    return {
        role: Credentials(
            tuple(
                Grant(callee, addresses[callee], token) for (caller, callee), token in tokens.items() if caller == role
            ),
            tuple(
                Admission(caller, token_digest(token)) for (caller, callee), token in tokens.items() if callee == role
            ),
        )
        for role in {*asks, *addresses}
    }


def listen(path: Path) -> socket.socket:
    """Return a non-blocking Unix socket that listens at `path` (at most 107 bytes; its directory should be 0700).

    Raises `OSError`.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        listener.bind(os.fspath(path))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener

"""What is said over the control socket."""

from __future__ import annotations

from typing import Any

import msgspec

from delta_protocol.errors import Failure
from delta_protocol.wire.control import Grant

CONTROL_SOCKET = "control.sock"
RELAY_SOCKET = "mcp.sock"


class StatusRequest(msgspec.Struct, frozen=True, tag="status"):
    """How is the stack?"""


class DownRequest(msgspec.Struct, frozen=True, tag="down"):
    """Stop in order. With `if_unused` only when nobody else is attached."""

    if_unused: bool = False


class AdmitRequest(msgspec.Struct, frozen=True, tag="admit"):
    """Give the operator's grants. Refused to descendants of the stack: what it runs cannot approve its own plans."""


class AttachRequest(msgspec.Struct, frozen=True, tag="attach"):
    """Be a client until the connection closes. `fingerprints`: a short hash per configured value, for comparison;
    None when the caller configured nothing and takes the stack as it is."""

    fingerprints: dict[str, str] | None = None


ControlRequest = StatusRequest | DownRequest | AdmitRequest | AttachRequest


class ActorStatus(msgspec.Struct, frozen=True):
    """One actor. `memory` is its resident set in bytes; `error` the last cause of death or failure."""

    name: str
    state: str
    pid: int | None = None
    restarts: int = 0
    incarnation: int = 0
    error: str = ""
    in_flight: int = 0
    queued: int = 0
    handled: int = 0
    failed: int = 0
    memory: int = 0
    extra: dict[str, Any] = {}


class StackStatus(msgspec.Struct, frozen=True, tag="status"):
    """The stack. `since` is seconds since the epoch; `addresses` are what is bound for clients."""

    state: str
    pid: int
    since: float
    state_dir: str
    addresses: tuple[str, ...] = ()
    actors: tuple[ActorStatus, ...] = ()
    attached: int = 0
    configuration: tuple[str, ...] = ()
    auto: bool = False
    zygote_restarts: int = 0


class Stopping(msgspec.Struct, frozen=True, tag="stopping"):
    """Whether the stack stops now; the connection closes when it has."""

    stops: bool


class Admitted(msgspec.Struct, frozen=True, tag="admitted"):
    """What opens the operator's links."""

    grants: tuple[Grant, ...]


class Attached(msgspec.Struct, frozen=True, tag="attached"):
    """`differing` names the configured values in which the caller and the stack differ; not attached if any."""

    pid: int
    differing: tuple[str, ...] = ()


class ControlFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The request was refused or not understood."""

    failure: Failure


ControlReply = StackStatus | Stopping | Admitted | Attached | ControlFailed

"""Messages between the supervisor and each actor, over the control socket that the actor was born with."""

from __future__ import annotations

import msgspec

from delta_protocol.config import StackConfig
from delta_protocol.wire.message import Done, Json, Request


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Where `role` listens and the token that opens a link to it as the grant's holder."""

    role: str
    address: str
    token: bytes


class Admission(msgspec.Struct, frozen=True, array_like=True):
    """Who may open a link to this actor: sha256 of the token, per caller."""

    caller: str
    digest: bytes


class Started(msgspec.Struct, frozen=True, array_like=True):
    """The actor serves. `addresses` are what it bound for the outside (`http://127.0.0.1:8420/mcp`)."""

    addresses: tuple[str, ...] = ()


class Start(Request[Started], frozen=True):
    """The first message to a new actor process. `state_dir` and `runtime_dir` are absolute paths.

    `sockets` names the inherited listening sockets in the order of their descriptors: `link` (other actors),
    and for transport `http` and `mcp` (relays).
    """

    role: str
    incarnation: int
    config: StackConfig
    state_dir: str
    runtime_dir: str
    sockets: tuple[str, ...]
    grants: tuple[Grant, ...]
    admissions: tuple[Admission, ...]
    factory: str = ""
    """`package.module:name` of the actor's class; empty for the stack's own actor of that role."""


class ActorStatistics(msgspec.Struct, frozen=True, array_like=True):
    """One heartbeat's answer. `extra` is the actor's own `statistics()` as JSON."""

    in_flight: int = 0
    queued: int = 0
    """Bytes that wait to be sent."""
    handled: int = 0
    failed: int = 0
    links: int = 0
    extra: Json = b"{}"


class Heartbeat(Request[ActorStatistics], frozen=True):
    """Answered at once by a live actor; no answer within the heartbeat's deadline means it is stuck."""


class Stop(Request[Done], frozen=True):
    """Take no more, finish what is in flight until the request's deadline, then reply and exit."""


Inbox = Start | Heartbeat | Stop

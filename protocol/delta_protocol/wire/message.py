"""The three kinds of message an actor understands, and what comes with each.

A request type names its reply type as its parameter, so that ``await ref.ask(request)`` is checked::

    class GetTool(Request[Tool], frozen=True):
        name: str

Bodies are msgspec arrays tagged with the class name. MCP payloads inside them are JSON text (`Json`), so that
64-bit integers stay exact and nothing is decoded twice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar, get_args

import msgspec

ReplyT_co = TypeVar("ReplyT_co", covariant=True)

Json = bytes
"""UTF-8 JSON text, carried opaquely."""


class Role(StrEnum):
    """Who a link's end is. `operator` is a person's command line, `supervisor` the parent process.

    The runtime takes any string as a role, so that those who embed it may have their own.
    """

    TRANSPORT = "transport"
    REGISTRY = "registry"
    SANDBOX = "sandbox"
    JOURNAL = "journal"
    RESULTS = "results"
    AUTH = "auth"
    SUPERVISOR = "supervisor"
    OPERATOR = "operator"


ACTOR_ROLES = tuple(role for role in Role if role not in (Role.SUPERVISOR, Role.OPERATOR))
"""The roles that the stack's actors have; each has its `[actors.NAME]`."""


def role_named(name: str) -> str:
    """Return the `Role` of that name, or the name itself for a role of an embedder's own."""
    return Role(name) if name in Role.__members__.values() else name


class Request(msgspec.Struct, Generic[ReplyT_co], frozen=True, array_like=True, tag=True):
    """Asks for exactly one reply of type `ReplyT_co`."""

    @classmethod
    def reply_type(cls) -> type[ReplyT_co]:
        """Return the type that this request declared as its reply (it may be a type expression: `tuple[X, ...]`)."""
        declared: type[ReplyT_co] = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]
        return declared


class Event(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Told, not asked: no reply, no delivery guarantee beyond the link's."""


class Item(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Flows on an open call, down (callee to caller) or, as the answer to a question, up."""


class Done(msgspec.Struct, frozen=True, array_like=True):
    """The reply of a request that only has to succeed."""


class Principal(msgspec.Struct, frozen=True, array_like=True):
    """On whose behalf something happens. `id` is stable: it is what the journal keeps."""

    id: str
    kind: str
    """`loopback` | `stdio` | `token` | `oauth` | `operator` | `system`."""
    scopes: tuple[str, ...] = ()
    subject: str = ""
    """Of an OAuth token: who it was given to act for, by the issuer's own name; empty where nobody is named."""
    client_id: str = ""
    """Of an OAuth token: the client it was given to."""
    issuer: str = ""
    """Of an OAuth token: whose names `subject` and `client_id` are."""


SYSTEM = Principal("system", "system")


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """The client call that a piece of work began with, so that a connector's question finds its way up."""

    conversation: str
    request: str
    client: str = ""
    progress: bool = False
    """Whether the client asked for progress."""
    capabilities: tuple[str, ...] = ()
    """What the client declared: `elicitation.form`, `elicitation.url`, `sampling`, `sampling.tools`, `roots`, ..."""
    log: str = ""
    """From which level on the client wants log messages; empty for none."""


class Progress(Item, frozen=True):
    """Progress of the open call. `progress` only grows."""

    progress: float
    total: float | None = None
    message: str = ""


class LogMessage(Item, frozen=True):
    """A connector's log message for the client behind the open call. `data` is any JSON value."""

    level: str
    logger: str
    data: Json


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """One more question of the same connector."""

    method: str
    params: Json


class Answered(msgspec.Struct, frozen=True, array_like=True):
    """The answer to one of several questions: a result or an error object."""

    result: Json | None = None
    error: Json | None = None


class Question(Item, frozen=True):
    """A connector asks the client behind an open call: `elicitation/create`, `sampling/createMessage`, `roots/list`."""

    connector: str
    method: str
    params: Json
    more: tuple[Asked, ...] = ()
    """What it asked at the same moment, of the same call."""


class Answer(Item, frozen=True):
    """The client's answer to a `Question`: the JSON-RPC result, or an error object."""

    result: Json | None = None
    error: Json | None = None
    more: tuple[Answered, ...] = ()
    """The answers to `Question.more`, in order."""

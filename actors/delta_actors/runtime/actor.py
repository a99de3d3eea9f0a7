"""What an actor is: a role, typed handlers, and whatever it runs beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from socket import socket
from typing import Any, ClassVar, Protocol, TypeVar, cast

import trio

from delta_protocol.config import StackConfig
from delta_protocol.wire.message import Event, Item, Origin, Principal, Request
from delta_protocol.wire.table import INBOXES, ITEMS

ReplyT = TypeVar("ReplyT")
MessageT = TypeVar("MessageT")
MessageT_co = TypeVar("MessageT_co", covariant=True)
ReplyT_co = TypeVar("ReplyT_co", covariant=True)
EventT = TypeVar("EventT", bound=Event)

Listener = Callable[[Item], Awaitable[Item | None]]
"""Takes the items of an open call; what it returns answers a question, and is ignored for other items."""


class Call(Protocol):
    """An open call, as its handler sees it. The handler runs in a cancel scope that ends at `deadline`."""

    @property
    def caller(self) -> str:
        """Who asked (a `Role`, or an embedder's own): proven by the link's greeting."""
        ...

    @property
    def principal(self) -> Principal:
        """On whose behalf. From a link that may speak for others (transport, journal, sandbox)."""
        ...

    @property
    def origin(self) -> Origin | None:
        """The client call behind it, if one is."""
        ...

    @property
    def trace(self) -> str:
        """W3C traceparent, or empty."""
        ...

    @property
    def deadline(self) -> float:
        """When the caller stops waiting, on this process's trio clock; `math.inf` if never."""
        ...

    @property
    def caller_lost(self) -> trio.Event:
        """Set when the link broke, even after the call. Not the caller's wish; see `Handlers.ask`'s options."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the caller cancelled; false when the scope ended for the deadline, a lost caller or a stop."""
        ...

    async def emit(self, item: Item) -> None:
        """Send an item down to the caller; waits while the caller's buffer is full."""
        ...

    async def question(self, item: Item) -> Item:
        """Send a question down and wait for its answer."""
        ...


class Ref(Protocol):
    """Another actor, as one sees it from outside. Messages go out in the order they were given."""

    async def ask(
        self,
        request: Request[ReplyT],
        *,
        listener: Listener | None = None,
        principal: Principal | None = None,
        origin: Origin | None = None,
        nowait: bool = False,
    ) -> ReplyT:
        """Send `request` and return its reply.

        The caller's own cancel scopes rule: their earliest deadline travels along, and cancelling cancels the handler.
        `principal` and `origin` default to those of the call being handled in this task, if any.
        With `nowait` a link without credit raises `Overloaded` at once (edges); otherwise the caller waits for credit.

        Raises what the handler raised (a `DeltaError`), `ActorCrashed`, `ActorUnavailable`.
        """
        ...

    async def tell(self, event: Event) -> None:
        """Send an event. Returns when it is on its way; raises `ActorUnavailable` if it cannot be."""
        ...

    def stream(self, request: Request[Any]) -> AbstractAsyncContextManager[trio.MemoryReceiveChannel[Item]]:
        """Open `request` and receive its items; leaving the block cancels it.

        The channel ends with the call. An error of the handler is raised when the block is left.
        """
        ...


class RequestKind(Protocol[MessageT_co, ReplyT_co]):
    """A request's class, seen so that a type checker knows both the message and its reply."""

    def __call__(self, *args: Any, **kwargs: Any) -> MessageT_co:  # noqa: ANN401 - any request's fields
        """Make a message."""
        ...

    def reply_type(self) -> type[ReplyT_co]:
        """Return the declared reply."""
        ...


class Handlers:
    """The typed table of what an actor answers. A handler of another message or reply type fails the type check."""

    def __init__(self) -> None:
        self.asks: dict[type[Request[Any]], Callable[[Any, Call], Awaitable[Any]]] = {}
        self.events: dict[type[Event], Callable[[Any], None]] = {}
        self.inline: dict[type[Request[Any]], Callable[[Any, Call], Any]] = {}
        self.kept: set[type[Request[Any]]] = set()

    def ask(
        self,
        request: RequestKind[MessageT, ReplyT],
        handler: Callable[[MessageT, Call], Awaitable[ReplyT]],
        *,
        keep_when_lost: bool = False,
    ) -> None:
        """`handler(message, call)` answers `request`; runs in a worker task under the call's deadline.

        When the link breaks the handler is cancelled, or with `keep_when_lost` told so by `call.caller_lost` and let
        go on to the deadline.
        """
        kind = cast("type[Request[Any]]", request)
        self.asks[kind] = handler
        if keep_when_lost:
            self.kept.add(kind)

    def ask_inline(self, request: RequestKind[MessageT, ReplyT], handler: Callable[[MessageT, Call], ReplyT]) -> None:
        """A handler that never waits: runs in the reader's own step (much cheaper)."""
        self.inline[cast("type[Request[Any]]", request)] = handler

    def tell(self, event: type[EventT], handler: Callable[[EventT], None]) -> None:
        """`handler(event)` takes an event; it must not wait."""
        self.events[event] = handler


class Context(Protocol):
    """What the runtime gives an actor for its life."""

    @property
    def role(self) -> str:
        """The actor's own role."""
        ...

    @property
    def incarnation(self) -> int:
        """Counts the actor's starts within its stack; part of every link's greeting."""
        ...

    @property
    def config(self) -> StackConfig:
        """The stack's resolved configuration."""
        ...

    @property
    def state_dir(self) -> Path:
        """What survives restarts; mode 0700."""
        ...

    @property
    def runtime_dir(self) -> Path:
        """Sockets and other things of this run only; mode 0700."""
        ...

    @property
    def sockets(self) -> Mapping[str, socket]:
        """Inherited listening sockets for the outside (`http`, `mcp`), non-blocking."""
        ...

    @property
    def nursery(self) -> trio.Nursery:
        """Lives as long as the actor serves; its tasks are cancelled after the last handler ended."""
        ...

    @property
    def stopping(self) -> trio.Event:
        """Set when the actor is to take no more and finish."""
        ...

    def ref(self, role: str) -> Ref:
        """Return the ref of a role that `wire.table.ASKS` allows; `KeyError` otherwise. One link per role, opened on
        first use and again after a crash."""
        ...


class Actor:
    """Base class. One instance per process (or task); constructed without arguments by the runtime.

    Life: `start(context)` -> handlers serve (READY) -> `run()` beside them -> stopping -> `stop()`.
    """

    role: ClassVar[str]
    """A `Role`, or an embedder's own name."""

    inboxes: ClassVar[Mapping[str, tuple[type[Any], ...]]] = INBOXES
    """The messages of every role that this actor is or asks. Only those with roles of their own set it."""

    items: ClassVar[tuple[type[Item], ...]] = ITEMS
    """The items that may flow on its calls, and on those it makes."""

    async def start(self, context: Context) -> tuple[str, ...]:
        """Open what is needed to serve; return addresses bound for the outside. Must not wait for other actors."""
        raise NotImplementedError

    def handlers(self) -> Handlers:
        """Return the table of what this actor answers."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work beside the handlers, begun after READY (recovery, background refresh). Cancelled on stop."""

    async def stop(self) -> None:
        """Close what `start` opened. Called once, after the last handler ended or the stop deadline passed."""

    def statistics(self) -> dict[str, Any]:
        """Return plain JSON figures for `status`."""
        return {}

"""The callee's end of a link: requests to handlers, and what becomes of a handler when its caller stops waiting.

| what happens                  | the handler               | what goes back             |
|-------------------------------|---------------------------|----------------------------|
| returns                       |                           | Reply                      |
| raises a `DeltaError`         |                           | Fail with it               |
| raises anything else          |                           | Fail `internal`, a log id  |
| its deadline passes           | cancelled                 | Fail `deadline_exceeded`   |
| the deadline passed before    | never runs                | Fail `deadline_exceeded`   |
| Cancel                        | cancelled                 | Credit, no reply           |
| the link breaks               | cancelled; not if kept    | nothing                    |
| the actor stops, out of time  | cancelled                 | nothing; the link closes   |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import trio

from delta_actors.runtime.actor import Handlers
from delta_actors.runtime.channel import UNREADABLE, Channel
from delta_actors.runtime.clock import from_wire
from delta_actors.runtime.current import Inherited
from delta_actors.runtime.failures import failure_of
from delta_actors.runtime.schema import Schema
from delta_actors.runtime.served import ServedCall
from delta_actors.runtime.workers import WorkerPool
from delta_protocol.errors import (
    ActorUnavailable,
    DeadlineExceeded,
    DeltaError,
    Invalid,
    ProtocolViolation,
)
from delta_protocol.wire.envelope import (
    Ask,
    Cancel,
    Credit,
    Down,
    Fail,
    FromCaller,
    More,
    QuestionDown,
    Reply,
    Tell,
    body,
)
from delta_protocol.wire.message import SYSTEM, Event, Principal, Request, Role

log = logging.getLogger("delta.actors")

SPEAK_FOR_OTHERS = frozenset({Role.TRANSPORT, Role.JOURNAL, Role.SANDBOX, Role.SUPERVISOR})
"""Roles whose word about the principal counts. Any other link speaks for itself."""


def own_principal(caller: str) -> Principal:
    """Return on whose behalf a link speaks that may not speak for others."""
    return Principal("operator", "operator") if caller == Role.OPERATOR else SYSTEM


class CalleeLink:
    """A greeted link from one caller. `serve` reads it to its end."""

    def __init__(
        self,
        channel: Channel[FromCaller],
        *,
        caller: str,
        role: str,
        handlers: Handlers,
        credit: int,
        schema: Schema,
        pool: WorkerPool,
        counters: Counters,
    ) -> None:
        self.channel = channel
        self.caller = caller
        self.role = role
        self.handlers = handlers
        self.broke = trio.Event()
        self.decode_item = schema.items.decode
        self._decode = schema.inbox.decode
        self._credit = credit
        self._pool = pool
        self._calls: dict[int, ServedCall] = {}
        self._counters = counters
        self._may_speak = caller in SPEAK_FOR_OTHERS
        self._own = Inherited(own_principal(caller))

    @property
    def lost(self) -> bool:
        """Whether the link broke."""
        return self.broke.is_set()

    @property
    def open(self) -> int:
        """How many calls are open."""
        return len(self._calls)

    async def idle(self) -> None:
        """Wait until no call is open."""
        await self._pool.wait_idle()

    async def serve(self) -> None:
        """Read until the caller closes or breaks the protocol; then cancel what nobody waits for."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.channel.write)
                try:
                    while batch := await self.channel.receive():
                        self._take(batch)
                except ProtocolViolation as error:
                    log.warning("%s closes the link from %s: %s", self.role, self.caller, error.message)
                nursery.cancel_scope.cancel()
        finally:
            self.broke.set()
            self.channel.close()
            for call in list(self._calls.values()):
                call.lose()

    def _take(self, batch: list[FromCaller]) -> None:
        self.channel.cork()
        try:
            for envelope in batch:
                if isinstance(envelope, Ask):
                    self._ask(envelope)
                elif isinstance(envelope, Tell):
                    self._tell(envelope)
                elif (call := self._calls.get(envelope.id)) is None:
                    continue
                elif isinstance(envelope, Cancel):
                    call.cancel()
                elif isinstance(envelope, More):
                    call.more(envelope.count)
                else:
                    call.answer(envelope)
        finally:
            self.channel.uncork()

    def _ask(self, ask: Ask) -> None:
        if len(self._calls) >= self._credit:
            raise ProtocolViolation(f"more than {self._credit} calls at once")
        if ask.id in self._calls:
            raise ProtocolViolation(f"call {ask.id} is open already")
        if self._counters.stopping:
            return self._refuse(ask, ActorUnavailable(f"{self.role} is stopping", actor=self.role))
        try:
            message = self._decode(ask.body)
        except UNREADABLE as error:
            return self._refuse(ask, Invalid(f"{self.role} cannot read this request: {error}"))
        deadline = from_wire(ask.deadline)
        if deadline <= trio.current_time():
            return self._refuse(ask, DeadlineExceeded(f"the deadline had passed when {self.role} read the request"))
        call = ServedCall(self, ask, message, self._inherited(ask), deadline)
        kind = cast("type[Request[Any]]", type(message))
        if kind in self.handlers.inline:
            self._run_inline(call)
        elif kind in self.handlers.asks:
            call.keep = kind in self.handlers.kept
            self._calls[ask.id] = call
            self._pool.submit(call)
        else:
            self._refuse(ask, Invalid(f"{self.role} does not answer {kind.__name__}"))
        return None

    def _inherited(self, envelope: Ask | Tell) -> Inherited:
        if envelope.principal is None and envelope.origin is None and not envelope.trace:
            return self._own
        if self._may_speak and envelope.principal is not None:
            return Inherited(envelope.principal, envelope.origin, envelope.trace)
        return Inherited(self._own.principal, envelope.origin, envelope.trace)

    def _refuse(self, ask: Ask, error: DeltaError) -> None:
        self._counters.failed += 1
        self.post(Fail(ask.id, error.to_failure()))

    def _run_inline(self, call: ServedCall) -> None:
        try:
            answer: Reply | Fail = Reply(call.id, body(self.handlers.inline[type(call.message)](call.message, call)))
        except Exception as error:  # noqa: BLE001 - an actor's boundary
            answer = Fail(call.id, failure_of(error, self.role))
        self._send_answer(answer)

    def _tell(self, tell: Tell) -> None:
        try:
            event = self._decode(tell.body)
        except UNREADABLE as error:
            log.warning("%s drops an event from %s: %s", self.role, self.caller, error)
            return
        handler = self.handlers.events.get(cast("type[Event]", type(event)))
        if handler is None:
            log.warning("%s drops an event from %s: it takes no %s", self.role, self.caller, type(event).__name__)
            return
        try:
            handler(event)
        except Exception:
            log.exception("%s: an event handler failed", self.role)

    def finish(self, call: ServedCall, answer: Reply | Fail | None) -> None:
        """The handler has ended: give the credit back, with the reply unless the call was cancelled."""
        self._calls.pop(call.id, None)
        if call.cancelled or answer is None:
            self._counters.cancelled += 1
            self.channel.post_control(Credit(1))
        else:
            self._send_answer(answer)

    def _send_answer(self, answer: Reply | Fail) -> None:
        if isinstance(answer, Fail):
            self._counters.failed += 1
        else:
            self._counters.handled += 1
        try:
            self.post(answer)
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, ProtocolViolation) as error:
            self._counters.failed += 1
            self.post(Fail(answer.id, failure_of(error, self.role)))

    def post(self, envelope: Reply | Fail | Down | QuestionDown) -> None:
        """Send, at once if nothing else is under way on this link."""
        self.channel.post(envelope, now=not self._calls)


class Counters:
    """What an actor counts over all its links, and whether it takes new calls."""

    __slots__ = ("cancelled", "failed", "handled", "refused_links", "stopping")

    def __init__(self) -> None:
        self.handled = 0
        self.failed = 0
        self.cancelled = 0
        self.refused_links = 0
        self.stopping = False

    def statistics(self) -> Mapping[str, int]:
        """Return plain figures."""
        return {name: int(getattr(self, name)) for name in self.__slots__}

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
from delta_actors.runtime.channel import UNREADABLE, Channel, resume
from delta_actors.runtime.clock import from_wire
from delta_actors.runtime.current import CURRENT, Inherited
from delta_actors.runtime.failures import failure_of
from delta_actors.runtime.schema import Schema
from delta_actors.runtime.workers import WorkerPool
from delta_protocol.errors import (
    ActorUnavailable,
    DeadlineExceeded,
    DeltaError,
    Invalid,
    ProtocolViolation,
    from_failure,
)
from delta_protocol.wire.envelope import (
    ITEM_WINDOW,
    AnswerUp,
    Ask,
    Cancel,
    Credit,
    Down,
    Fail,
    FromCaller,
    More,
    NoAnswer,
    QuestionDown,
    Reply,
    Tell,
    body,
)
from delta_protocol.wire.message import SYSTEM, Event, Item, Origin, Principal, Request, Role

log = logging.getLogger("delta.actors")

SPEAK_FOR_OTHERS = frozenset({Role.TRANSPORT, Role.JOURNAL, Role.SANDBOX, Role.SUPERVISOR})
"""Roles whose word about the principal counts. Any other link speaks for itself."""


def own_principal(caller: str) -> Principal:
    """Return on whose behalf a link speaks that may not speak for others."""
    return Principal("operator", "operator") if caller == Role.OPERATOR else SYSTEM


class ServedCall:
    """A call with its handler: what `Call` promises, and its run."""

    __slots__ = (
        "_answers",
        "_cancel_requested",
        "_lost",
        "_question",
        "_room",
        "_window",
        "deadline",
        "id",
        "inherited",
        "keep",
        "link",
        "message",
        "over",
        "scope",
    )  # fmt: skip

    def __init__(
        self, link: CalleeLink, ask: Ask, message: Request[Any], inherited: Inherited, deadline: float
    ) -> None:
        self.id = ask.id
        self.link = link
        self.message = message
        self.inherited = inherited
        self.deadline = deadline
        self.keep = False
        self.over = False
        self.scope: trio.CancelScope | None = None
        self._lost: trio.Event | None = None
        self._cancel_requested = False
        self._window = ITEM_WINDOW
        self._room: trio.lowlevel.ParkingLot | None = None
        self._question = 0
        self._answers: dict[int, trio.lowlevel.Task] = {}

    @property
    def caller(self) -> str:
        """Who asked."""
        return self.link.caller

    @property
    def principal(self) -> Principal:
        """On whose behalf."""
        return self.inherited.principal

    @property
    def origin(self) -> Origin | None:
        """The client call behind it, if one is."""
        return self.inherited.origin

    @property
    def trace(self) -> str:
        """W3C traceparent, or empty."""
        return self.inherited.trace

    @property
    def caller_lost(self) -> trio.Event:
        """Set when the link broke with the call open."""
        if self._lost is None:
            self._lost = trio.Event()
            if self.link.lost:
                self._lost.set()
        return self._lost

    @property
    def cancelled(self) -> bool:
        """Whether the caller cancelled, as against its deadline passing or its link breaking."""
        return self._cancel_requested

    async def emit(self, item: Item) -> None:
        """Send an item down; waits while the caller has `ITEM_WINDOW` of them untaken."""
        await self._take_window()
        self.link.post(Down(self.id, body(item)))
        await self.link.channel.drained()

    async def question(self, item: Item) -> Item:
        """Send a question down and wait for its answer. Raises what the caller's side raised (a `DeltaError`)."""
        await self._take_window()
        if self.link.lost:
            # Nobody is left to answer.
            raise ActorUnavailable("the caller is gone", actor=self.link.caller)
        self._question = number = self._question + 1
        self.link.post(QuestionDown(self.id, number, body(item)))
        self._answers[number] = trio.lowlevel.current_task()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            del self._answers[number]
            return trio.lowlevel.Abort.SUCCEEDED

        answer: Item = await trio.lowlevel.wait_task_rescheduled(abort)
        return answer

    async def _take_window(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._window == 0 and not self.link.lost:
            if self._room is None:
                self._room = trio.lowlevel.ParkingLot()
            await self._room.park()
        self._window -= 1

    def more(self, count: int) -> None:
        """The caller took items."""
        if not 0 < count <= ITEM_WINDOW - self._window:
            raise ProtocolViolation("more items taken than were sent")
        self._window += count
        if self._room is not None:
            self._room.unpark(count=count)

    def answer(self, up: AnswerUp | NoAnswer) -> None:
        """The caller answered a question."""
        task = self._answers.pop(up.number, None)
        if task is None:
            return
        if isinstance(up, NoAnswer):
            resume(task, from_failure(up.failure))
        else:
            try:
                resume(task, self.link.decode_item(up.body))
            except UNREADABLE as error:
                resume(task, Invalid(f"an unreadable answer: {error}"))

    def cancel(self) -> None:
        """The caller cancelled."""
        self._cancel_requested = True
        if self.scope is not None:
            self.scope.cancel()

    def lose(self) -> None:
        """The link broke."""
        if self._lost is not None:
            self._lost.set()
        if self._room is not None:
            self._room.unpark_all()
        for task in self._answers.values():
            resume(task, ActorUnavailable("the caller is gone", actor=self.link.caller))
        self._answers.clear()
        if not self.keep and self.scope is not None:
            self.scope.cancel()

    async def run(self) -> None:
        """Run the handler in the call's scope and send what it owes. Raises nothing but cancellation from outside."""
        link = self.link
        answer: Reply | Fail | None = None
        try:
            if self._cancel_requested or (link.lost and not self.keep):
                return
            with trio.CancelScope(deadline=self.deadline) as scope:
                self.scope = scope
                token = CURRENT.set(self.inherited)
                try:
                    value = await link.handlers.asks[type(self.message)](self.message, self)
                    answer = Reply(self.id, body(value))
                except Exception as error:  # noqa: BLE001 - an actor's boundary
                    answer = Fail(self.id, failure_of(error, link.role))
                finally:
                    CURRENT.reset(token)
            if scope.cancelled_caught and not self._cancel_requested:
                answer = Fail(self.id, DeadlineExceeded(f"{link.role} did not finish by the deadline").to_failure())
        finally:
            link.finish(self, answer)


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
        self.lost = False
        self.decode_item = schema.items.decode
        self._decode = schema.inbox.decode
        self._credit = credit
        self._pool = pool
        self._calls: dict[int, ServedCall] = {}
        self._counters = counters
        self._may_speak = caller in SPEAK_FOR_OTHERS
        self._own = Inherited(own_principal(caller))

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
            self.lost = True
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
        call.over = True
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

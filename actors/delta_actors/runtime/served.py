"""An open call at the callee's end: what its handler sees, and its run to the one answer it owes (or none)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from delta_actors.runtime.channel import UNREADABLE, resume
from delta_actors.runtime.current import CURRENT, Inherited
from delta_actors.runtime.failures import failure_of
from delta_protocol.errors import ActorUnavailable, DeadlineExceeded, Invalid, ProtocolViolation, from_failure
from delta_protocol.wire.envelope import (
    ITEM_WINDOW,
    AnswerUp,
    Ask,
    Down,
    Fail,
    NoAnswer,
    QuestionDown,
    Reply,
    body,
)
from delta_protocol.wire.message import Item, Origin, Principal, Request

if TYPE_CHECKING:
    from delta_actors.runtime.serving import CalleeLink


class ServedCall:
    """A call with its handler: what `Call` promises, and its run."""

    __slots__ = (
        "_answers",
        "_cancel_requested",
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
        self.scope: trio.CancelScope | None = None
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
        """Set when the link broke, be it after the call."""
        return self.link.broke

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

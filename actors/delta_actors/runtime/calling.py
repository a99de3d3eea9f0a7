"""The caller's end of a link: open calls, their credit, their items, and what becomes of them when the link breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
import trio

from delta_actors.runtime.actor import Listener
from delta_actors.runtime.channel import UNREADABLE, Channel, resume
from delta_actors.runtime.clock import to_wire
from delta_actors.runtime.current import NOTHING, Inherited
from delta_actors.runtime.schema import Schema
from delta_protocol.errors import (
    ActorCrashed,
    DeltaError,
    Internal,
    Overloaded,
    ProtocolViolation,
    Refused,
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
    FromCallee,
    More,
    NoAnswer,
    QuestionDown,
    Reply,
    Tell,
    body,
)
from delta_protocol.wire.message import Event, Request

ReplyT = TypeVar("ReplyT")

RETRY_AFTER = 1.0
"""Seconds that `Overloaded` suggests when a link has no credit."""


class LinkClosed(Exception):
    """The link closed before the message left: the caller of this module may use another link."""


@cache
def _reply_decoder(request: type[Request[Any]]) -> Callable[[msgspec.Raw], Any]:
    return msgspec.msgpack.Decoder(request.reply_type()).decode


class _OpenCall:
    """A call that waits. Envelopes that come while its task is busy with an item queue in `inbox`."""

    __slots__ = ("appended", "id", "inbox", "listens", "parked", "sent_deadline", "task")

    def __init__(self, id: int, task: trio.lowlevel.Task, listens: bool) -> None:  # noqa: A002 - the wire's name
        self.id = id
        self.task = task
        self.listens = listens
        self.parked = False
        self.inbox: deque[object] = deque()
        self.appended = 0
        self.sent_deadline = 0.0

    def take(self, value: object) -> None:
        if self.parked:
            self.parked = False
            resume(self.task, value)
        else:
            self.inbox.append(value)


class CallerLink:
    """A greeted link to one incarnation of an actor. `serve` must run beside it."""

    def __init__(
        self, channel: Channel[FromCallee], *, callee: str, incarnation: int, credit: int, schema: Schema
    ) -> None:
        self.callee = callee
        self.incarnation = incarnation
        self.closed = trio.Event()
        self._channel = channel
        self._credit = self._granted = credit
        self._calls: dict[int, _OpenCall] = {}
        self._next = 0
        self._waiting = trio.lowlevel.ParkingLot()
        self._decode_item = schema.items.decode
        self._asked = 0
        self._resumed = 0
        self._late = 0

    def statistics(self) -> dict[str, Any]:
        """Return plain figures: calls open, waiting for credit, asked so far; bytes unsent."""
        return {
            "callee": self.callee,
            "incarnation": self.incarnation,
            "open": len(self._calls),
            "waiting": len(self._waiting),
            "credit": self._credit,
            "asked": self._asked,
            "late_replies": self._late,
            "unsent": self._channel.unsent,
        }

    async def serve(self) -> None:
        """Read until the peer closes or breaks the protocol, then fail what is open. Raises nothing of the peer's."""
        reason = "the link closed"
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._channel.write)
                try:
                    while batch := await self._channel.receive():
                        self._resumed = 0
                        for envelope in batch:
                            self._dispatch(envelope)
                except ProtocolViolation as error:
                    reason = str(error)
                nursery.cancel_scope.cancel()
        finally:
            self._close(reason)

    def _close(self, reason: str) -> None:
        self.closed.set()
        self._waiting.unpark_all()
        for call in self._calls.values():
            executed = "unknown" if self._channel.left(call.id, call.appended) else "no"
            call.take(
                ActorCrashed(
                    f"{self.callee} went away during the call ({reason})",
                    actor=self.callee,
                    incarnation=self.incarnation,
                    executed=executed,
                )
            )
        self._calls.clear()
        self._channel.close()

    async def ask(
        self, request: Request[ReplyT], inherited: Inherited, *, listener: Listener | None = None, nowait: bool = False
    ) -> ReplyT:
        """Send the request and wait for its reply; see `Ref.ask`. Raises `LinkClosed` when it did not leave."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._credit > 0 and not self._channel.full and not self.closed.is_set():
            self._credit -= 1
        else:
            await self._take_credit(nowait)
        call = self._open(request, inherited, listens=listener is not None)
        if listener is None:
            return self._reply(request, await self._envelope(call))
        try:
            while True:
                envelope = await self._next_envelope(call)
                if not isinstance(envelope, Down | QuestionDown):
                    return self._reply(request, envelope)
                await self._hear(envelope, listener)
        finally:
            if call.id in self._calls:
                self._abandon(call)

    async def tell(self, event: Event, inherited: Inherited) -> None:
        """Send an event once there is room in the write buffer. Raises `LinkClosed`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._channel.drained()
        if self.closed.is_set():
            raise LinkClosed
        self._channel.post(Tell(body(event), inherited.principal, inherited.origin, inherited.trace), now=True)

    async def _take_credit(self, nowait: bool) -> None:
        while not self.closed.is_set():
            if self._credit > 0:
                await self._channel.drained()
                if self._credit > 0:
                    self._credit -= 1
                    return
            elif nowait:
                raise Overloaded(
                    f"{self.callee} has {self._granted} calls open and takes no more now", retry_after=RETRY_AFTER
                )
            else:
                await self._waiting.park()
        raise LinkClosed

    def _open(self, request: Request[Any], inherited: Inherited, *, listens: bool) -> _OpenCall:
        if self.closed.is_set():
            raise LinkClosed
        self._next += 1
        call = _OpenCall(self._next, trio.lowlevel.current_task(), listens)
        call.sent_deadline = trio.current_effective_deadline()
        deadline = to_wire(call.sent_deadline)
        if inherited is NOTHING:
            ask = Ask(call.id, deadline, body(request))
        else:
            principal, origin, trace = inherited.principal, inherited.origin, inherited.trace
            ask = Ask(call.id, deadline, body(request), principal, origin, trace)
        try:
            self._resumed -= 1
            # The last task that one batch of replies woke sends for all of them.
            self._channel.post(ask, key=call.id, now=not self._calls or self._resumed == 0)
        except BaseException:
            self._return_credit(1)
            raise
        call.appended = self._channel.appended
        self._calls[call.id] = call
        self._asked += 1
        return call

    def _reply(self, request: Request[ReplyT], envelope: object) -> ReplyT:
        if isinstance(envelope, Fail):
            raise from_failure(envelope.failure)
        assert isinstance(envelope, Reply)
        try:
            return cast(ReplyT, _reply_decoder(type(request))(envelope.body))
        except UNREADABLE as error:
            raise Internal(f"{self.callee} answered {type(request).__name__} with something else: {error}") from error

    async def _next_envelope(self, call: _OpenCall) -> object:
        if call.inbox:
            await trio.lowlevel.checkpoint_if_cancelled()
            value = call.inbox.popleft()
            if isinstance(value, BaseException):
                raise value
            return value
        return await self._envelope(call)

    async def _envelope(self, call: _OpenCall) -> object:
        call.parked = True

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            call.parked = False
            self._abandon(call)
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    def _abandon(self, call: _OpenCall) -> None:
        """The caller wants no reply any more. Synchronous, so that it fits into an abort function."""
        del self._calls[call.id]
        if self._channel.withdraw(call.id):
            self._return_credit(1)
        elif trio.current_time() < call.sent_deadline:
            self._channel.post_control(Cancel(call.id))
        # After the deadline the callee ends by its own clock: a Cancel would make it look like the caller's wish.

    async def _hear(self, envelope: Down | QuestionDown, listener: Listener) -> None:
        try:
            item = self._decode_item(envelope.body)
        except UNREADABLE as error:
            raise Internal(f"{self.callee} sent an item that cannot be read: {error}") from error
        if isinstance(envelope, Down):
            await listener(item)
        else:
            try:
                answer = await listener(item)
                if answer is None:
                    raise Refused("the caller gave no answer")
                self._channel.post(AnswerUp(envelope.id, envelope.number, body(answer)), now=True)
            except DeltaError as error:
                self._channel.post(NoAnswer(envelope.id, envelope.number, error.to_failure()), now=True)
        self._channel.post_control(More(envelope.id, 1))

    def _dispatch(self, envelope: FromCallee) -> None:
        if isinstance(envelope, Reply | Fail):
            self._return_credit(1)
            call = self._calls.pop(envelope.id, None)
            if call is None:
                self._late += 1
            else:
                self._resumed += 1
                call.take(envelope)
        elif isinstance(envelope, Credit):
            self._return_credit(envelope.count)
        else:
            self._dispatch_item(envelope)

    def _dispatch_item(self, envelope: Down | QuestionDown) -> None:
        call = self._calls.get(envelope.id)
        if call is None:
            return
        if call.listens:
            if len(call.inbox) >= ITEM_WINDOW:
                raise ProtocolViolation(f"{self.callee} sent more than {ITEM_WINDOW} items that nobody took yet")
            call.take(envelope)
            return
        if isinstance(envelope, QuestionDown):
            nobody = Refused("the caller takes no questions").to_failure()
            self._channel.post_control(NoAnswer(envelope.id, envelope.number, nobody))
        self._channel.post_control(More(envelope.id, 1))

    def _return_credit(self, count: int) -> None:
        if not 0 < count <= self._granted - self._credit:
            raise ProtocolViolation(f"{self.callee} gave back more credit than it granted")
        self._credit += count
        if self._waiting:
            self._waiting.unpark(count=count)

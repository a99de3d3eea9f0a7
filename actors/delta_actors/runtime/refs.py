"""A `Ref`: another actor's address and the right to ask it. Opens its link on first use, and again after a crash.

What was sent is never sent again: a call in flight when the link breaks fails with `ActorCrashed`. What was not sent
waits for the next incarnation until its deadline (the socket stays bound meanwhile, so a greeting waits in its
backlog), then fails with `ActorUnavailable`.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import trio

from delta_actors.runtime.actor import Listener
from delta_actors.runtime.calling import CallerLink, LinkClosed
from delta_actors.runtime.current import CURRENT, NOTHING, Inherited
from delta_actors.runtime.greeting import Identity, greet
from delta_actors.runtime.schema import Schema
from delta_protocol.errors import ActorCrashed, ActorUnavailable, ProtocolViolation, Refused
from delta_protocol.wire.message import Event, Item, Origin, Principal, Request

ReplyT = TypeVar("ReplyT")

LONGEST_WAIT = 30.0
"""Seconds that a call without a nearer deadline waits for an actor to be there."""

RETRY_FIRST = 0.01
RETRY_MOST = 0.5


class ActorRef:
    """The runtime's `Ref`. Its link lives in `nursery`."""

    def __init__(
        self,
        *,
        me: Identity,
        callee: str,
        address: str,
        token: bytes,
        schema: Schema,
        nursery: trio.Nursery,
        default: Inherited = NOTHING,
    ) -> None:
        self._me = me
        self._callee = callee
        self._address = address
        self._token = token
        self._schema = schema
        self._nursery = nursery
        self._default = default
        self._link: CallerLink | None = None
        self._keeping = False
        self._refusal: Refused | ProtocolViolation | None = None
        self._changed = trio.lowlevel.ParkingLot()

    async def ask(
        self,
        request: Request[ReplyT],
        *,
        listener: Listener | None = None,
        principal: Principal | None = None,
        origin: Origin | None = None,
        nowait: bool = False,
    ) -> ReplyT:
        """See `Ref.ask`."""
        inherited = self._inherited(principal, origin)
        while True:
            link = self._link
            if link is None or link.closed.is_set():
                link = await self._connected()
            try:
                return await link.ask(request, inherited, listener=listener, nowait=nowait)
            except LinkClosed:
                continue

    async def tell(self, event: Event) -> None:
        """See `Ref.tell`."""
        inherited = self._inherited(None, None)
        while True:
            link = await self._connected()
            try:
                return await link.tell(event, inherited)
            except LinkClosed:
                continue

    def stream(self, request: Request[Any]) -> AbstractAsyncContextManager[trio.MemoryReceiveChannel[Item]]:
        """See `Ref.stream`."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request[Any]) -> AsyncGenerator[trio.MemoryReceiveChannel[Item], None]:
        # The call runs in the link's nursery, so that what the block raises is not wrapped in a group. It still ends
        # with the block, and by the block's deadline.
        send, receive = trio.open_memory_channel[Item](0)
        scope = trio.CancelScope(deadline=trio.current_effective_deadline())
        ended = trio.Event()
        failure: Exception | None = None

        async def listener(item: Item) -> None:
            await send.send(item)

        async def asks() -> None:
            nonlocal failure
            try:
                with send, scope:
                    await self.ask(request, listener=listener)
            except trio.BrokenResourceError:
                pass  # the block was left before its scope was cancelled
            except Exception as error:  # noqa: BLE001 - raised again when the block is left
                failure = error
            finally:
                ended.set()

        self._nursery.start_soon(asks)
        try:
            with receive:
                yield receive
        finally:
            scope.cancel()
            with trio.CancelScope(shield=True):
                await ended.wait()
        if failure is not None:
            raise failure

    def statistics(self) -> dict[str, Any]:
        """Return plain figures of the link, if there is one."""
        return {"callee": self._callee} if self._link is None else self._link.statistics()

    def _inherited(self, principal: Principal | None, origin: Origin | None) -> Inherited:
        inherited = CURRENT.get()
        if inherited is NOTHING:
            inherited = self._default
        if principal is None and origin is None:
            return inherited
        return Inherited(principal or inherited.principal, origin or inherited.origin, inherited.trace)

    async def _connected(self) -> CallerLink:
        if self._link is not None and not self._link.closed.is_set():
            return self._link
        now = trio.current_time()
        left = max(0.0, min(trio.current_effective_deadline() - now, LONGEST_WAIT))
        # A little before the caller's own deadline, so that it gets the reason instead of a bare timeout.
        with trio.move_on_at(now + left - min(0.1, left / 10)):
            while self._link is None or self._link.closed.is_set():
                if not self._keeping:
                    self._keeping = True
                    self._refusal = None
                    self._nursery.start_soon(self._keep)
                await self._changed.park()
                if self._refusal is not None:
                    raise self._refusal
            return self._link
        raise ActorUnavailable(f"{self._callee} is not running and did not come back in time", actor=self._callee)

    async def _keep(self) -> None:
        """Connect, greet and serve the link; again while somebody waits for one."""
        delay = RETRY_FIRST
        try:
            while True:
                try:
                    self._link = await self._open()
                except (Refused, ProtocolViolation) as error:
                    self._refusal = error
                    return
                except (OSError, ActorCrashed, trio.TooSlowError):
                    await trio.sleep(delay)
                    delay = min(2 * delay, RETRY_MOST)
                    continue
                delay = RETRY_FIRST
                self._changed.unpark_all()
                await self._link.serve()
                if not self._changed:
                    return
        finally:
            self._keeping = False
            self._changed.unpark_all()

    async def _open(self) -> CallerLink:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            sock.connect(self._address)
        except BaseException:
            sock.close()
            raise
        with trio.fail_after(LONGEST_WAIT):
            return await greet(sock, me=self._me, callee=self._callee, token=self._token, schema=self._schema)

"""Serves one client over a connection that carries messages both ways (spec 1.6, 3.6): lines, or a WebSocket.

Each message decides its era for itself; a legacy session is kept once `initialize` was seen, so a client may probe with
`server/discover` and fall back (spec 2.2). Requests run concurrently, each in its own cancel scope.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import trio

from delta_actors.mcp.execute import Executor, Running, error_answer
from delta_actors.mcp.questions import Questions
from delta_actors.mcp.resources import Watcher
from delta_actors.mcp.session_state import SessionState
from delta_actors.mcp.subscribers import Subscribers, Wanted, is_listen, listen, listen_result
from delta_protocol import jsonrpc
from delta_protocol.codecs import compact
from delta_protocol.codecs.negotiate import Format
from delta_protocol.errors import Invalid
from delta_protocol.jsonrpc import INVALID_REQUEST, Id, Malformed, Notification, Request, Response
from delta_protocol.mcp import delta_mcp, errors, incoming, outgoing
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, LegacySession
from delta_protocol.mcp.lines import MAX_LINE, LineTooLong
from delta_protocol.mcp.versions import LATEST_LEGACY
from delta_protocol.wire.message import Principal

_QUEUED_LINES = 64
_COALESCE = 64 << 10


@dataclass(frozen=True, slots=True)
class LineLimits:
    """Bounds of one connection: bytes per line, requests in flight, seconds to finish them after the end of input."""

    max_line: int = MAX_LINE
    max_in_flight: int = 64
    drain: float = 2.0


class MessageWire(Protocol):
    """The server's end of a connection that carries whole messages."""

    @property
    def max_message(self) -> int:
        """The longest message taken, in bytes."""
        ...

    @property
    def hears_after_end(self) -> bool:
        """Whether a client that ended its side may still hear answers."""
        ...

    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the next messages, possibly none; None after the end."""
        ...

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; one task at a time. Raises `trio.BrokenResourceError`, `trio.ClosedResourceError`."""
        ...

    def send_now(self, message: bytes) -> bytes | None:
        """Send without waiting and return what is left of the message; None where nothing was tried."""
        ...


class MessageSession:
    """One connection. `run` returns when the client closed its side, or the connection broke.

    `check` raises `RpcError` for a call that this client may not make.
    """

    def __init__(
        self,
        executor: Executor,
        subscribers: Subscribers,
        wire: MessageWire,
        *,
        principal: Principal,
        conversation: str,
        limits: LineLimits,
        check: Callable[[IncomingCall], None] = lambda _call: None,
    ) -> None:
        self._executor = executor
        self._subscribers = subscribers
        self._wire = wire
        self._principal = principal
        self._conversation = conversation
        self._limits = limits
        self._check = check
        self._reading = trio.CancelScope()
        self._dismissed = False
        self._legacy: LegacySession | None = None
        self._initialized = False
        self._compact = False
        self._state = SessionState()
        self._running: dict[Id, Running] = {}
        self._listening: set[Running] = set()
        self._outbox, self._outgoing = trio.open_memory_channel[bytes](_QUEUED_LINES)
        self._unsent = 0
        self._questions = Questions()

    async def run(self) -> None:
        """Serve until the client is gone; after the end of input its requests get `drain` seconds to finish."""
        async with trio.open_nursery() as service:
            service.start_soon(self._write, service.cancel_scope)
            async with trio.open_nursery() as requests:
                with self._reading:
                    await self._read(service, requests)
                heard = self._dismissed or self._wire.hears_after_end
                requests.cancel_scope.deadline = trio.current_time() + (self._limits.drain if heard else 0.0)
                self._questions.close()
                for running in self._listening:
                    if self._dismissed:
                        running.scope.cancel()
                    else:
                        running.withdraw()
            self._outbox.close()
            service.cancel_scope.deadline = trio.current_time() + self._limits.drain

    def dismiss(self) -> None:
        """Read no further: what is in progress gets `drain` seconds to finish, subscriptions their closing result."""
        self._dismissed = True
        self._reading.cancel()

    async def notify(self, text: bytes) -> None:
        """Queue one line; waits while the client reads too slowly. After the end it does nothing."""
        self._unsent += 1
        try:
            await self._outbox.send(self._line(text))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            self._unsent -= 1
            raise

    async def _answer(self, text: bytes) -> None:
        """Send a response: at once where nothing else is under way, else in its turn with the others of that moment."""
        if self._unsent or len(self._running) > 1:
            await self.notify(text)
            return
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            message = self._line(text)
            rest = self._wire.send_now(message)
            if rest is None or rest:
                self._unsent += 1
                self._outbox.send_nowait(rest or message)

    def _line(self, text: bytes) -> bytes:
        """Return a message as it is written now; what is queued keeps the form of its moment."""
        return compact.encode(text) if self._compact else jsonrpc.single_line(text)

    async def _write(self, session: trio.CancelScope) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._outgoing:
                async for line in self._outgoing:
                    lines = self._with_following(line)
                    await self._wire.send(lines)
                    self._unsent -= len(lines)
        session.cancel()

    def _with_following(self, line: bytes) -> list[bytes]:
        lines, size = [line], len(line)
        while size < _COALESCE:
            try:
                lines.append(self._outgoing.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
            size += len(lines[-1])
        return lines

    async def _read(self, service: trio.Nursery, requests: trio.Nursery) -> None:
        while (messages := await self._wire.receive()) is not None:
            for message in messages:
                await self._take(message, service, requests)

    async def _take(self, line: bytes | LineTooLong, service: trio.Nursery, requests: trio.Nursery) -> None:
        if isinstance(line, LineTooLong):
            reason = f"the message is longer than {self._wire.max_message} bytes"
            await self.notify(jsonrpc.encode_error(None, INVALID_REQUEST, reason))
            return
        if self._compact:
            # Plain messages go on to be understood: a client may send some before it read our answer.
            with contextlib.suppress(Invalid):
                line = compact.decode(line)
        try:
            message = jsonrpc.parse(line)
        except Malformed as error:
            await self.notify(jsonrpc.encode_error(error.id, error.code, error.message))
            return
        match message:
            case Request():
                await self._request(message, requests)
            case Notification():
                self._notification(message, service)
            case Response():
                self._questions.answer(message)

    async def _request(self, request: Request, requests: trio.Nursery) -> None:
        try:
            call = self._accept(request)
        except RpcError as error:
            await self.notify(jsonrpc.encode_error(request.id, error.code, error.message, error.data))
            return
        if isinstance(call, LegacySession):
            await self._begin(request, call)
            return
        running = self._running[call.id] = Running()
        requests.start_soon(self._serve, call, running)

    async def _begin(self, request: Request, session: LegacySession) -> None:
        """Answer `initialize`; the answer itself is plain, what follows may be compact."""
        self._legacy, agreed, result = self._executor.begin(request, session, delta_mcp.ON_LINES)
        await self.notify(jsonrpc.encode_result(request.id, result))
        self._compact = agreed is Format.COMPACT

    def _accept(self, request: Request) -> IncomingCall | LegacySession:
        eras = self._executor.eras
        claims = incoming.claimed_version(request) is not None or request.method == "server/discover"
        if "legacy" not in eras or ("modern" in eras and claims):
            call = incoming.read_modern(request)
        elif request.method == "initialize":
            if self._legacy is not None:
                raise RpcError(INVALID_REQUEST, "initialize: this connection is already initialized")
            return incoming.read_initialize(request)
        else:
            session = self._legacy
            if session is None and request.method == "ping":
                session = LegacySession(LATEST_LEGACY)
            if session is None:
                raise incoming.not_initialized(request.method)
            call = incoming.read_legacy(request, session)
        if call.id in self._running:
            raise RpcError(INVALID_REQUEST, f"a request with the id {call.id!r} is still in progress")
        if len(self._running) >= self._limits.max_in_flight:
            raise RpcError(errors.OVERLOADED, f"busy: {self._limits.max_in_flight} requests in progress")
        self._check(call)
        return call

    async def _serve(self, call: IncomingCall, running: Running) -> None:
        try:
            text = await self._listen(call, running) if is_listen(call) else await self._execute(call, running)
            if text is not None and not running.withdrawn:
                # It counts as in flight until its answer is on the way, so that a client that does not read is bounded.
                await self._answer(text)
        finally:
            del self._running[call.id]

    async def _execute(self, call: IncomingCall, running: Running) -> bytes:
        ask = partial(self._questions.ask, self) if call.era == "legacy" else None
        answer = await self._executor.execute(
            call, self, ask, self._principal, self._conversation, session=self._state, running=running
        )
        return answer.text

    async def _listen(self, call: IncomingCall, running: Running) -> bytes | None:
        """Serve a subscription until it is withdrawn or the client is gone; return the error where it cannot begin."""
        self._listening.add(running)
        try:
            with running.scope:
                wanted = self._subscribers.honoured(call, self._principal, self._conversation)
                await listen(call, wanted, self._subscribers, self)
        except RpcError as error:
            return error_answer(call, error).text
        finally:
            self._listening.discard(running)
        if not self._dismissed:
            return None
        result = outgoing.shape(self._executor.identity, call.era, call.method, listen_result(call))
        return jsonrpc.encode_result(call.id, result)

    def _notification(self, notification: Notification, service: trio.Nursery) -> None:
        if notification.method == "notifications/cancelled":
            cancelled = incoming.cancelled_id(notification)
            if cancelled is not None and (running := self._running.get(cancelled)) is not None:
                running.withdraw()
        elif notification.method == "notifications/initialized" and self._legacy is not None and not self._initialized:
            self._initialized = True
            service.start_soon(self._tell_changes)

    async def _tell_changes(self) -> None:
        assert self._legacy is not None
        watcher = Watcher(self._principal, self._conversation, self._legacy.client, self._legacy.capabilities)
        with self._subscribers.subscribe(Wanted(uris=self._state.uris, watcher=watcher)) as subscription:
            await subscription.tell(self)

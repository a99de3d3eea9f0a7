"""One connection in hypercorn's hands, with what of it cannot stay as it is.

HTTP/1.1 alone is spoken, connections end when their clients closed them, and WebSockets are bounded in what they may
hold. See spec actors 1.1.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import h11
import trio
from hypercorn.events import Closed, RawData
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Event, Request, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
from wsproto.events import CloseConnection

from delta_actors.mcp.http_inbox import EXTENSION, Inbox

if TYPE_CHECKING:
    from hypercorn.config import Config
    from hypercorn.typing import Event as Flag
    from hypercorn.typing import H11SendableEvent, WebsocketAcceptEvent

_LINGER = 2.0
"""Seconds for a client to close a WebSocket on which it sent too long a message."""


class _WebSocket(WSStream):
    """One whose pings end with it, without compression, and that keeps nothing of a message that is too long.

    hypercorn's pings hold the connection until the next one is due. Compressed, 64 KiB may become 64 MiB before anybody
    counts. And after a message over the limit hypercorn goes on to collect what follows.
    """

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - hypercorn's own
        super().__init__(*arguments)
        self._pinging = trio.CancelScope()
        self._lingering = trio.CancelScope()
        self._overflown = False

    async def handle(self, event: Event) -> None:
        """Take an event of the connection."""
        await super().handle(event)
        if self.closed:
            self._pinging.cancel()
            self._lingering.cancel()

    async def _accept(self, message: WebsocketAcceptEvent) -> None:
        self.handshake.extensions = None
        await super()._accept(message)

    async def _send_pings(self) -> None:
        with self._pinging:
            await super()._send_pings()

    async def _handle_events(self) -> None:
        if not self._overflown:
            await super()._handle_events()
            if self.buffer.length > self.buffer.max_length:
                self.buffer.clear()
                self._overflown = True
                # hypercorn leaves what it spawns half untyped.
                cast("Any", self.task_group).spawn(self._end_late)
        elif any(isinstance(event, CloseConnection) for event in self.connection.events()):
            await self.send(StreamClosed(stream_id=self.stream_id))

    async def _end_late(self) -> None:
        with self._lingering:
            await trio.sleep(_LINGER)
        if not self.closed:
            await self.send(StreamClosed(stream_id=self.stream_id))


class _Applications:
    """Starts a request's application with an `Inbox` where hypercorn has a memory channel."""

    def __init__(self, task_group: Any, timer: _Timer) -> None:  # noqa: ANN401 - hypercorn's own
        self._task_group = task_group
        self._timer = timer

    async def spawn_app(self, app: Any, config: Config, scope: Any, send: Any) -> Any:  # noqa: ANN401 - hypercorn's own
        """Return by what the application hears of the connection."""
        inbox = Inbox(self._timer)
        scope["extensions"][EXTENSION] = inbox
        self._task_group.spawn(self._run, app, config, scope, inbox, send)
        return inbox.put

    async def _run(self, app: Any, config: Config, scope: Any, inbox: Inbox, send: Any) -> None:  # noqa: ANN401
        try:
            await app(scope, inbox.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
        except Exception:  # noqa: BLE001 - the boundary: a fault of one request ends no other
            await config.log.exception("a request failed")
        finally:
            inbox.close()
            await send(None)


class _Http1(H11Protocol):
    """One that stays HTTP/1.1: hypercorn would go over to HTTP/2 for any client that asks, by preface or `Upgrade`."""

    def __init__(self, timer: _Timer, *arguments: Any) -> None:  # noqa: ANN401 - hypercorn's own
        super().__init__(*arguments)
        self._head = b""
        self._applications = _Applications(self.task_group, timer)

    async def _check_protocol(self, event: h11.Request) -> None:
        """Let the request be one like any other."""

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        """Keep the head for what follows: hypercorn would write head, body and an empty end one by one.

        Each write is a lock, a scope and a turn of the loop. hypercorn makes the head when there is a body to send, or
        none, so nothing waits for long.
        """
        try:
            data = self._head + self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._head = data
            return
        self._head = b""
        if data:
            await self.send(RawData(data=data))

    async def _create_stream(self, request: h11.Request) -> None:
        websocket = _wants_websocket(request)
        self.stream = (_WebSocket if websocket else HTTPStream)(
            self.app,
            self.config,
            self.context,
            self.task_group if websocket else cast("Any", self._applications),
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        if websocket:
            self.connection = H11WSConnection(cast("h11.Connection", self.connection))
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1
        await self.context.mark_request()


class _Timer:
    """One task for a connection's life: ends it when idle for too long or at shutdown, runs what long requests need.

    In place of hypercorn's, which starts a task after each request and waits for it to have begun. A connection that is
    busy at shutdown is ended by hypercorn after its response.
    """

    def __init__(self, terminated: Flag, seconds: float) -> None:
        self._terminated = terminated
        self._seconds = seconds
        self._scope = trio.CancelScope()
        self._due = math.inf
        self._idle = False
        self._beside: Callable[[], Awaitable[None]] | None = None
        self._accompanying: trio.CancelScope | None = None
        self._started = False
        self._over = False

    async def restart(self, task_group: Any, close: Callable[[], Awaitable[None]]) -> None:  # noqa: ANN401 - hypercorn's own
        """Begin to count; `close` ends the connection."""
        self._idle = True
        self._wait_until(trio.current_time() + self._seconds)
        if not self._started:
            self._started = True
            task_group.spawn(self._run, close)

    async def stop(self) -> None:
        """Count no longer: a request is in progress."""
        self._idle = False
        self._due = math.inf

    def accompany(self, beside: Callable[[], Awaitable[None]], patience: float) -> None:
        """Run `beside` if the request is still in progress after `patience` seconds."""
        self._beside = beside
        self._wait_until(trio.current_time() + patience)

    def dismiss(self) -> None:
        """Run nothing beside the request any more."""
        self._beside = None
        self._due = math.inf
        if self._accompanying is not None:
            self._accompanying.cancel()

    def end(self) -> None:
        """End the task: the connection is closed."""
        self._over = True
        self._scope.cancel()
        self.dismiss()

    def _wait_until(self, due: float) -> None:
        # The task looks again when it wakes: a deadline that moves back with each request costs nothing.
        self._due = due
        if due < self._scope.deadline:
            self._scope.deadline = due

    async def _run(self, close: Callable[[], Awaitable[None]]) -> None:
        while not self._over:
            with self._scope:
                await self._terminated.wait()
            if self._over:
                return
            stopping = self._terminated.is_set()
            if self._idle and (stopping or trio.current_time() >= self._due):
                await close()
                return
            if stopping:
                return
            beside = self._beside
            if beside is not None and trio.current_time() >= self._due:
                self._due = math.inf
                with trio.CancelScope() as self._accompanying:
                    await beside()
                self._accompanying = None
            self._scope = trio.CancelScope(deadline=self._due)


class Connection(TCPServer):
    """One that ends when its client has closed it, not only once it was idle for too long as well."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - hypercorn's own
        super().__init__(*arguments)
        self._timer = _Timer(self.context.terminated, self.config.keep_alive_timeout)
        # It has the two methods that are called, and is no subclass, since it shares nothing else.
        self.idle_task = cast("Any", self._timer)
        self._socket = cast("trio.SocketStream", self.stream).socket

    async def _idle_timeout(self) -> None:
        with trio.CancelScope(shield=True):
            await self._initiate_server_close()

    async def _read_data(self) -> None:
        made = self.protocol
        made.protocol = _Http1(
            self._timer,
            made.app,
            made.config,
            made.context,
            made.task_group,
            made.state,
            made.ssl,
            made.client,
            made.server,
            made.send,
        )
        # hypercorn's own loop has a scope for each read, and the stream's reading a second turn.
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                data = os.read(self._socket.fileno(), MAX_RECV)
            except BlockingIOError:
                continue
            except (trio.ClosedResourceError, OSError):
                break
            await made.handle(RawData(data))
            if not data:
                break
        await made.handle(Closed())
        self._timer.end()

    async def protocol_send(self, event: ConnectionEvent) -> None:
        """Send at once what the socket takes: waiting for its turn costs a lock, two scopes and a turn of the loop."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        if not self.send_lock.locked():
            try:
                sent = os.write(self._socket.fileno(), event.data)
            except OSError:
                # Full or closed: the stream finds out.
                sent = 0
            if sent == len(event.data):
                return
            event = RawData(event.data[sent:])
        # Half a message must not be the end of it.
        with trio.CancelScope(shield=True):
            await super().protocol_send(event)


def _wants_websocket(request: h11.Request) -> bool:
    if request.method != b"GET":
        return False
    upgrade, tokens = b"", b""
    for name, value in request.headers:
        if name == b"upgrade":
            upgrade = value.strip().lower()
        elif name == b"connection":
            tokens = value.lower()
    return upgrade == b"websocket" and b"upgrade" in [token.strip() for token in tokens.split(b",")]

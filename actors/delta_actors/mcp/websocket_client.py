"""Opens an MCP session over a WebSocket: subprotocol `mcp`, one JSON-RPC message a text frame, both eras."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, cast
from urllib.parse import urlsplit

import h11
import trio
import trio_websocket
from wsproto.utilities import ProtocolError

from delta_actors.mcp.background import background
from delta_actors.mcp.client import DeltaClient
from delta_actors.mcp.client_calls import OpenCall
from delta_actors.mcp.message_client import MessageClient
from delta_actors.mcp.settling import initialize, probe
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import McpError, NotSent
from delta_protocol.mcp.handshake import Agreement, ClientIdentity, NotUnderstood
from delta_protocol.mcp.lines import LineTooLong
from delta_protocol.mcp.types import Implementation
from delta_protocol.mcp.versions import SUBPROTOCOL

_GOODBYE = 2.0
"""Seconds for the closing handshake."""
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class WebSocketParameters:
    """Where the server is: a ws or wss URL. `headers` go out with the handshake; seconds and bytes."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    era: Literal["auto", "legacy", "modern"] = "auto"
    start_timeout: float = 60.0
    probe_timeout: float = 10.0
    max_message: int = 64 << 20
    capabilities: Json = b"{}"
    client: Implementation = field(default_factory=lambda: Implementation("delta-supervisor", "0.1.0"))


class WebSocketClient(MessageClient):
    """JSON-RPC over one open WebSocket."""

    def __init__(self, socket: trio_websocket.WebSocketConnection) -> None:
        super().__init__()
        self._socket = socket

    async def watch(self) -> None:
        """Nothing needs watching: the library reads and answers pings by itself."""
        await trio.sleep_forever()

    async def why_ended(self) -> str:
        """Return how the server closed it."""
        await trio.lowlevel.checkpoint()
        reason = self._socket.closed
        return "closed" if reason is None else f"closed with {reason.code} {reason.reason or reason.name}"

    def write_at_once(self, text: bytes) -> bool:  # noqa: ARG002 - of `MessageClient`
        """Send nothing: a WebSocket may have to wait."""
        return False

    async def write(self, text: bytes, call: OpenCall | None) -> bool:
        """Send a message; from its first byte on nobody knows how much of it arrives."""
        if self._socket.closed is None and call is not None:
            call.sent = True
        try:
            await self._socket.send_message(text.decode())
        except trio_websocket.ConnectionClosed:
            return False
        return True

    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the next message."""
        try:
            message = await self._socket.get_message()
        except trio_websocket.ConnectionClosed:
            return None
        return [message.encode() if isinstance(message, str) else message]


@asynccontextmanager
async def open_websocket(parameters: WebSocketParameters) -> AsyncGenerator[DeltaClient, None]:
    """Open a session with the server at `parameters.url`; on leaving, close it.

    Raises `NotSent` where it cannot be reached, refuses us, or does not speak the protocol within `start_timeout`.
    """
    identity = ClientIdentity(parameters.client, parameters.capabilities)
    opening = _Opening(parameters)
    async with background() as nursery:
        try:
            with trio.fail_after(parameters.start_timeout):
                nursery.start_soon(opening.hold)
                wire = WebSocketClient(await opening.wait())
                nursery.start_soon(wire.run)
                agreement = await _settle(wire, identity, nursery, parameters)
        except trio.TooSlowError:
            raise NotSent(f"{parameters.url}: no session within {parameters.start_timeout:g} s") from None
        client = DeltaClient(wire, agreement, identity)
        wire.on_notification = client.take_notification
        if agreement.era == "modern" and agreement.announces_tool_changes:
            nursery.start_soon(client.listen)
        try:
            yield client
        finally:
            with trio.move_on_after(_GOODBYE, shield=True):
                await opening.close()


async def _settle(
    wire: WebSocketClient, identity: ClientIdentity, nursery: trio.Nursery, parameters: WebSocketParameters
) -> Agreement:
    try:
        if parameters.era != "legacy":
            agreement = await probe(wire, identity, nursery, parameters.probe_timeout)
            if agreement is not None:
                return agreement
        return await initialize(wire, identity)
    except (McpError, NotUnderstood) as error:
        raise NotSent(f"{parameters.url} does not speak the protocol: {error}") from None


class _Readers:
    """A nursery for the library's reader, whose end ends the handshake: the library would wait for it for ever."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.ends = trio.CancelScope()
        self._nursery = nursery

    def start_soon(self, read: Callable[[], Awaitable[None]]) -> None:
        """Start the reader."""
        self._nursery.start_soon(self._run, read)

    async def _run(self, read: Callable[[], Awaitable[None]]) -> None:
        await read()
        self.ends.cancel()


class _Opening:
    """Owns the stream and the library's reader, whose errors become the reason why there is no socket."""

    def __init__(self, parameters: WebSocketParameters) -> None:
        self._parameters = parameters
        self._socket: trio_websocket.WebSocketConnection | None = None
        self._done = trio.Event()
        self._problem = "the server closed the connection"
        self._status: int | None = None

    async def wait(self) -> trio_websocket.WebSocketConnection:
        """Return the open socket. Raises `NotSent`."""
        await self._done.wait()
        if self._socket is None:
            raise NotSent(f"{self._parameters.url}: {self._problem}", status=self._status)
        return self._socket

    async def close(self) -> None:
        """Do the closing handshake."""
        if self._socket is not None:
            await self._socket.aclose()

    async def hold(self) -> None:
        """Keep the connection until cancelled, or until it fails."""
        try:
            stream = await self._connect()
            async with stream, trio.open_nursery() as reading:
                await self._upgrade(stream, reading)
        except* trio_websocket.ConnectionRejected as group:
            for error in group.exceptions:
                if isinstance(error, trio_websocket.ConnectionRejected):
                    self._status = error.status_code
                    said = (error.body or b"").decode(errors="replace")[:_SHOWN]
                    self._problem = f"HTTP {error.status_code}: {said}"
        except* (OSError, trio.BrokenResourceError, ValueError, ProtocolError, h11.ProtocolError) as group:
            self._problem = f"cannot be reached: {group.exceptions[0]}"
        finally:
            self._done.set()

    async def _upgrade(
        self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream], reading: trio.Nursery
    ) -> None:
        given = self._parameters
        parts = urlsplit(given.url)
        resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        readers = _Readers(reading)
        with readers.ends:
            socket = await trio_websocket.wrap_client_stream(
                cast("trio.Nursery", readers),
                stream,
                parts.netloc.rpartition("@")[2],
                resource,
                subprotocols=[SUBPROTOCOL],
                extra_headers=[
                    (name.encode("ascii"), value.encode("latin-1")) for name, value in given.headers.items()
                ],
                max_message_size=given.max_message,
                message_queue_size=16,
            )
            if socket.closed is None:
                self._socket = socket
        self._done.set()
        await trio.sleep_forever()

    async def _connect(self) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
        parts = urlsplit(self._parameters.url)
        if not parts.hostname:
            raise ValueError("the URL names no host")
        if parts.scheme == "ws":
            return await trio.open_tcp_stream(parts.hostname, parts.port or 80)
        return await trio.open_ssl_over_tcp_stream(
            parts.hostname, parts.port or 443, ssl_context=ssl.create_default_context(), https_compatible=True
        )

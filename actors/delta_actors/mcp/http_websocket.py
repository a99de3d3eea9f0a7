"""MCP over a WebSocket on the endpoint's path: subprotocol `mcp`, one JSON-RPC message a text frame, both eras.

It is no transport of the specification; messages, eras and cancellation are those of stdio (spec 1.6, 6.1). What is
checked of a request over HTTP is checked at the handshake: host, origin, path, rate, credentials. Afterwards each call
counts for the rate and needs its method's scopes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import trio

from delta_actors.mcp.execute import Executor
from delta_actors.mcp.http_admission import Admission
from delta_actors.mcp.http_exchange import AsgiReceive, Exchange
from delta_actors.mcp.http_reply import AsgiSend
from delta_actors.mcp.http_room import Room
from delta_actors.mcp.http_settings import HttpSettings
from delta_actors.mcp.message_session import LineLimits, MessageSession
from delta_actors.mcp.subscribers import Subscribers
from delta_protocol.jsonrpc import INVALID_REQUEST
from delta_protocol.mcp.http_ladder import HttpRefusal
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.lines import TOO_LONG, LineTooLong
from delta_protocol.mcp.versions import SUBPROTOCOL

_GOING_AWAY = 1001
_NORMAL = 1000
_UNSUPPORTED = 1003


class AsgiWire:
    """The server's end of an accepted WebSocket; `max_message` in bytes."""

    hears_after_end = False

    def __init__(self, receive: AsgiReceive, send: AsgiSend, max_message: int) -> None:
        self.max_message = max_message
        self.close_code = _NORMAL
        self._receive = receive
        self._send = send

    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the next message; None after the end, and for a binary frame, which no message is."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return None
        text: str | None = message.get("text")
        if text is None:
            self.close_code = _UNSUPPORTED
            return None
        body = text.encode()
        return [body if len(body) <= self.max_message else TOO_LONG]

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages. To a client that left it does nothing; one that reads too slowly is waited for."""
        for message in messages:
            await self._send({"type": "websocket.send", "text": message.decode()})

    def send_now(self, message: bytes) -> bytes | None:  # noqa: ARG002 - of `MessageWire`
        """Try nothing: ASGI has no way to send without waiting."""
        return None

    async def close(self) -> None:
        """Say why it ends."""
        await self._send({"type": "websocket.close", "code": self.close_code})


class WebSockets:
    """Serves the WebSockets of one endpoint."""

    def __init__(
        self,
        executor: Executor,
        subscribers: Subscribers,
        settings: HttpSettings,
        admission: Admission,
        *,
        streams: Room,
    ) -> None:
        self._executor = executor
        self._subscribers = subscribers
        self._settings = settings
        self._admission = admission
        self._streams = streams
        self._limits = LineLimits(max_in_flight=min(64, settings.max_requests), drain=settings.graceful)

    async def serve(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        """Serve one connection to its end, or refuse it as HTTP does."""
        await receive()
        exchange = Exchange(scope | {"method": "GET"}, receive, _refusing(send), trio.current_time(), whole=True)
        try:
            await self._admit(exchange, scope["subprotocols"])
            with self._streams.take():
                await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL, "headers": list(exchange.common)})
                await self._run(exchange, AsgiWire(receive, send, self._settings.max_body))
        except HttpRefusal as refusal:
            await exchange.refuse(refusal)

    async def _admit(self, exchange: Exchange, subprotocols: list[str]) -> None:
        admission = self._admission
        admission.check_source(exchange)
        admission.check_path(exchange)
        admission.check_open(exchange)
        exchange.principal = await admission.admit(exchange)
        if SUBPROTOCOL not in subprotocols:
            raise HttpRefusal(400, INVALID_REQUEST, f"the WebSocket subprotocol is {SUBPROTOCOL}")

    async def _run(self, exchange: Exchange, wire: AsgiWire) -> None:
        def check(call: IncomingCall) -> None:
            self._admission.check_call(exchange, self._executor.methods.scopes(call))

        session = MessageSession(
            self._executor,
            self._subscribers,
            wire,
            principal=exchange.principal,
            conversation=f"w_{secrets.token_hex(8)}",
            limits=replace(self._limits, max_line=wire.max_message),
            check=check,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._dismiss, exchange, session, wire)
            await session.run()
            nursery.cancel_scope.cancel()
        await wire.close()

    async def _dismiss(self, exchange: Exchange, session: MessageSession, wire: AsgiWire) -> None:
        await self._admission.wait_dismissed(exchange)
        wire.close_code = _GOING_AWAY
        session.dismiss()


def _refusing(send: AsgiSend) -> AsgiSend:
    """Return how an answer to the handshake is sent that is no acceptance (ASGI, WebSocket Denial Response)."""

    async def refuse(message: dict[str, Any]) -> None:
        await send(message | {"type": f"websocket.{message['type']}"})

    return refuse

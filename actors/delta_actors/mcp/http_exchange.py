"""One HTTP request as ASGI gives it: its parts, its bounded body, and the watch for a client that leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from delta_actors.mcp.background import background
from delta_actors.mcp.http_inbox import EXTENSION, Inbox
from delta_actors.mcp.http_reply import AsgiSend, Reply, send_whole
from delta_actors.mcp.http_settings import HttpSettings
from delta_protocol.codecs.negotiate import Format
from delta_protocol.mcp import http_coding
from delta_protocol.mcp.http_coding import Accepts
from delta_protocol.mcp.http_ladder import Headers, HttpRefusal, body_too_large
from delta_protocol.wire.message import Principal

AsgiReceive = Callable[[], Awaitable[dict[str, Any]]]

_LINGER = 2.0
_LINGER_BYTES = 64 << 20
"""For how long, and how much, a refused client may go on sending its body."""


class ClientLeft(Exception):
    """The client closed the connection before its request was whole."""


class Exchange:
    """A request. `started` is trio time, `peer` the client's address; `principal` is set once it is admitted.

    `common` are headers of whatever is answered. `whole`: there is no body to read.
    """

    def __init__(
        self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend, started: float, *, whole: bool = False
    ) -> None:
        self.headers = Headers(scope["headers"])
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        client = scope.get("client")
        self.peer: str | None = client[0] if client else None
        self.common: list[tuple[bytes, bytes]] = []
        self.started = started
        self.principal = Principal("", "")
        self._connection: Inbox | None = scope.get("extensions", {}).get(EXTENSION)
        self._receive = receive
        self._send = send
        self._whole = whole

    async def send(self, message: dict[str, Any]) -> None:
        """Send a part of the response."""
        if self.common and message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *self.common]
        await self._send(message)

    def accepts(self, settings: HttpSettings, asked_in: Format = Format.JSON) -> Accepts:
        """Return what the client takes of what the endpoint offers. Raises `HttpRefusal` (406)."""
        accepts = http_coding.read_accept(self.headers, settings.formats, asked_in)
        return accepts if settings.gzip else msgspec.structs.replace(accepts, gzip=False)

    @property
    def arrived(self) -> bool:
        """Whether reading the body waits for nothing."""
        return self._connection is not None and self._connection.whole

    async def read_body(self, max_body: int) -> bytes:
        """Return the whole body. Raises `HttpRefusal` (413) as soon as it passes the limit, `ClientLeft`."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > max_body:
                raise body_too_large(max_body)
            if not message.get("more_body", False):
                self._whole = True
                return b"".join(parts)

    async def refuse(self, refusal: HttpRefusal) -> None:
        """Send a refusal and let the client finish sending, within bounds.

        A connection that is closed with a body still coming is reset, and the client never sees why (RFC 9112 9.6).
        """
        await send_whole(self.send, refusal.status, refusal.body, refusal.headers, last=self._whole)
        if self._whole:
            return
        left = _LINGER_BYTES
        with trio.move_on_after(_LINGER):
            while left > 0:
                message = await self._receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    break
        await self.send({"type": "http.response.body", "body": b""})

    async def run(
        self, reply: Reply, work: Callable[[], Awaitable[None]], left: Callable[[], None] | None = None
    ) -> None:
        """Do the work of one request, while its client is kept waiting; `left` is called when the client is gone.

        A connection of ours watches by itself. Behind another server of ASGI it takes two tasks.
        """
        connection = self._connection
        if connection is not None:
            connection.accompany(reply.keep_alive, reply.patience, left)
            try:
                await work()
            finally:
                connection.dismiss()
            return
        async with background() as nursery:
            nursery.start_soon(_keep_waiting, reply)
            nursery.start_soon(self._watch, left)
            await work()

    def settle(self) -> None:
        """Watch and keep waiting no longer: the answer is on its way, and with it the client is told to leave."""
        if self._connection is not None:
            self._connection.dismiss()

    async def _watch(self, left: Callable[[], None] | None) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if left is not None:
            left()


async def _keep_waiting(reply: Reply) -> None:
    await trio.sleep(reply.patience)
    await reply.keep_alive()

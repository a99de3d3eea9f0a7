"""One HTTP request as ASGI gives it: its parts, its bounded body, and the watch for a client that leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from delta_actors.mcp.http_reply import AsgiSend
from delta_protocol.mcp.http_ladder import Headers, body_too_large
from delta_protocol.wire.message import Principal

AsgiReceive = Callable[[], Awaitable[dict[str, Any]]]


class ClientLeft(Exception):
    """The client closed the connection before its request was whole."""


class Exchange:
    """A request. `started` is trio time, `peer` the client's address; `principal` is set once it is admitted."""

    def __init__(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend, started: float) -> None:
        self.headers = Headers(scope["headers"])
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        client = scope.get("client")
        self.peer: str | None = client[0] if client else None
        self.send = send
        self.started = started
        self.principal = Principal("", "")
        self._receive = receive

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
                return b"".join(parts)

    async def watch(self, scope: trio.CancelScope | None) -> None:
        """Return once the client left, after cancelling `scope`. hypercorn only queues the event (spec actors 1.1)."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if scope is not None:
            scope.cancel()

"""Hears over HTTP that a server's tools changed: by a legacy session's GET stream, or `subscriptions/listen`."""

from __future__ import annotations

from typing import Protocol

import httpx
import trio

from delta_actors.mcp.background import background
from delta_actors.mcp.client import DeltaClient
from delta_actors.mcp.http_wire import posted, read_messages
from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import Json, Message, Notification, Request
from delta_protocol.mcp import handshake
from delta_protocol.mcp.errors import McpError
from delta_protocol.mcp.handshake import Agreement

_FIRST_DELAY = 1.0
_LAST_DELAY = 60.0
_MAX_EVENT = 1 << 20
_LISTEN_ID = "listen"


class Wire(Protocol):
    """What the listener needs of the connection."""

    def headers(self, method: str, params: Json) -> dict[str, str]:
        """Return the headers of a request."""
        ...

    listened: trio.Event
    """Set once the stream is open, or will not be."""

    async def answer_unnamed(self, request: Request) -> None:
        """Answer a request that names no call."""
        ...


async def listen_for_changes(
    wire: Wire, http: httpx.AsyncClient, url: str, agreement: Agreement, client: DeltaClient
) -> None:
    """Keep a stream open, as long as the server offers one; after a break the tools may have changed unheard."""
    if agreement.era == "modern" and not agreement.announces_tool_changes:
        wire.listened.set()
        return
    delay = _FIRST_DELAY
    while True:
        began = trio.current_time()
        try:
            status = await _stream(wire, http, url, agreement, client)
        except (httpx.HTTPError, McpError):
            status = 0
            wire.listened.set()
        if 400 <= status < 500:
            return
        delay = _FIRST_DELAY if trio.current_time() - began > _LAST_DELAY else min(2 * delay, _LAST_DELAY)
        await trio.sleep(delay)
        if status == 200:
            client.take_notification("notifications/tools/list_changed", b"{}")


async def _stream(wire: Wire, http: httpx.AsyncClient, url: str, agreement: Agreement, client: DeltaClient) -> int:
    async with background() as nursery:

        def take(message: Message, _scope: trio.CancelScope) -> None:
            if isinstance(message, Notification):
                client.take_notification(message.method, message.params)
            elif isinstance(message, Request):
                nursery.start_soon(wire.answer_unnamed, message)

        if agreement.era == "legacy":
            headers = wire.headers("", b"{}") | {"accept": "text/event-stream"}
            request = http.stream("GET", url, headers=headers)
        else:
            params = _listen_params(client)
            body = jsonrpc.encode_request(_LISTEN_ID, "subscriptions/listen", params)
            request = posted(http, url, body, wire.headers("subscriptions/listen", params))
        async with request as response:
            wire.listened.set()
            if response.status_code == 200:
                await read_messages(response, _MAX_EVENT, take)
            return response.status_code


def _listen_params(client: DeltaClient) -> Json:
    return handshake.with_meta(handshake.LISTEN_PARAMS, client.meta)

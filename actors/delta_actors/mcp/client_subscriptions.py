"""Hears of changes at a server: legacy by `resources/subscribe`, modern by `subscriptions/listen` (spec 1.9, 3.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import trio

from delta_actors.mcp.background import background
from delta_actors.mcp.client import LISTS_OF, DeltaClient
from delta_actors.mcp.client_calls import OnNotification
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import McpError

UPDATED = "notifications/resources/updated"
_KEPT = 256
_FIRST_DELAY = 0.5
_LAST_DELAY = 30.0
_LAST_WORDS = 2.0


class Change(NamedTuple):
    """A notification: which one, and for an updated resource its URI."""

    method: str
    uri: str | None = None


class _Updated(msgspec.Struct):
    uri: str | None = None


@asynccontextmanager
async def changes(client: DeltaClient, *uris: str) -> AsyncGenerator[trio.MemoryReceiveChannel[Change], None]:
    """Give the changes of the resources `uris`, and of the server's lists, for the length of the block.

    A modern subscription that breaks is begun again; a change meanwhile may go unheard, so every list counts as changed
    then. Who reads too slowly misses the newest. Raises what `request` raises where a legacy server refuses a URI.
    """
    send, receive = trio.open_memory_channel[Change](_KEPT)

    def take(method: str, params: Json) -> None:
        client.forget_lists(method)
        change = _change(method, params, uris)
        if change is not None:
            try:
                send.send_nowait(change)
            except (trio.WouldBlock, trio.BrokenResourceError):
                return

    async with receive, send:
        if client.era == "modern":
            async with background() as nursery:
                nursery.start_soon(_listen, client, uris, take)
                yield receive
            return
        before = client.on_notification

        def both(method: str, params: Json) -> None:
            take(method, params)
            if before is not None:
                before(method, params)

        client.on_notification = both
        try:
            for uri in uris:
                await client.request("resources/subscribe", msgspec.json.encode({"uri": uri}))
            yield receive
        finally:
            client.on_notification = before
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORDS):
                for uri in uris:
                    await _unsubscribe(client, uri)


async def _unsubscribe(client: DeltaClient, uri: str) -> None:
    try:
        await client.request("resources/unsubscribe", msgspec.json.encode({"uri": uri}))
    except McpError:
        return


async def _listen(client: DeltaClient, uris: Sequence[str], take: OnNotification) -> None:
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    params = msgspec.json.encode({"notifications": wanted})
    delay = _FIRST_DELAY
    while True:
        began = trio.current_time()
        try:
            await client.request("subscriptions/listen", params, on_notification=take)
        except McpError:
            pass
        delay = _FIRST_DELAY if trio.current_time() - began > _LAST_DELAY else min(2 * delay, _LAST_DELAY)
        await trio.sleep(delay)
        for method in LISTS_OF:
            take(method, b"{}")


def _change(method: str, params: Json, uris: Sequence[str]) -> Change | None:
    if method in LISTS_OF:
        return Change(method)
    if method != UPDATED:
        return None
    try:
        uri = msgspec.json.decode(params, type=_Updated).uri
    except (msgspec.DecodeError, RecursionError):
        return None
    return Change(method, uri) if uri in uris else None

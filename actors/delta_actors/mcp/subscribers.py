"""Who is told that the tools changed: legacy sessions by a bare notification, modern clients by `subscriptions/listen`.

Several changes before a subscriber comes round count as one (acceptance 49).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import trio

from delta_actors.mcp.context import Channel
from delta_protocol.jsonrpc import Json, encode_notification
from delta_protocol.mcp.incoming import IncomingCall, decode_member
from delta_protocol.mcp.types import json_object
from delta_protocol.mcp.versions import META_SUBSCRIPTION


class Subscription:
    """One subscriber's pending change."""

    def __init__(self) -> None:
        self._changed = trio.Event()

    def poke(self) -> None:
        """Something changed."""
        self._changed.set()

    async def wait(self) -> None:
        """Return once something changed since the last return."""
        await self._changed.wait()
        self._changed = trio.Event()


class Subscribers:
    """The subscribers of one server."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    @contextmanager
    def subscribe(self) -> Generator[Subscription, None, None]:
        """Give a subscription for the length of the block."""
        subscription = Subscription()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def poke(self) -> None:
        """Tell every subscriber that the tools changed."""
        for subscription in self._subscriptions:
            subscription.poke()


def is_listen(call: IncomingCall) -> bool:
    """Return whether the call is the modern era's long-lived subscription (spec 1.9)."""
    return call.era == "modern" and call.method == "subscriptions/listen"


async def listen(call: IncomingCall, subscribers: Subscribers, channel: Channel) -> None:
    """Serve `subscriptions/listen` until cancelled. Only what was asked for and exists is honoured and sent."""
    meta: dict[str, Any] = {META_SUBSCRIPTION: call.id}
    wanted = json_object(decode_member(call.params, "notifications"))
    tools = wanted.get("toolsListChanged") is True
    honoured = {"toolsListChanged": True} if tools else {}
    acknowledged = msgspec.json.encode({"notifications": honoured, "_meta": meta})
    with subscribers.subscribe() as subscription:
        await channel.notify(encode_notification("notifications/subscriptions/acknowledged", acknowledged))
        while True:
            await subscription.wait()
            if tools:
                params = msgspec.json.encode({"_meta": meta})
                await channel.notify(encode_notification("notifications/tools/list_changed", params))


def listen_result(call: IncomingCall) -> Json:
    """Return the result that ends a subscription gracefully."""
    return msgspec.json.encode({"_meta": {META_SUBSCRIPTION: call.id}})

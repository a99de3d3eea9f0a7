"""A modern server's changes: one `subscriptions/listen` stream, begun anew when something else is wanted (spec 1.9)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import trio

from delta_actors.mcp import DeltaClient, McpError
from delta_protocol.mcp.types import json_array, json_object
from delta_protocol.wire.message import Json

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
PATIENCE = 5.0
"""Seconds that a server may take to acknowledge a stream before it counts as begun."""
FIRST_DELAY = 1.0
LAST_DELAY = 60.0


class Listening:
    """What is wanted of a server; `run` must run beside it.

    What it tells, the client takes like any other notification; after a break, one for all that may have gone unheard.
    """

    def __init__(self, client: DeltaClient, kinds: Iterable[str]) -> None:
        """`kinds` are the lists, besides tools, whose changes the server announces."""
        self._client = client
        self._kinds = tuple(kinds)
        self._uris: dict[str, None] = {}
        self._honoured: frozenset[str] = frozenset()
        self._version = 0
        self._settled = 0
        self._changed = trio.Event()

    async def watch(self, uri: str) -> bool:
        """Want a resource's changes; return, once the stream is there, whether the server tells them."""
        if uri not in self._uris:
            self._uris[uri] = None
            self._change()
        version = self._version
        while self._settled < version:
            await self._changed.wait()
        return uri in self._honoured

    def unwatch(self, uri: str) -> None:
        """Want a resource's changes no more."""
        if uri in self._uris:
            del self._uris[uri]
            self._change()

    async def run(self) -> None:
        """Keep the stream open that is wanted; a newer one is there before the older one ends."""
        async with trio.open_nursery() as nursery:
            before: trio.CancelScope | None = None
            while True:
                version = self._version
                if self._kinds or self._uris:
                    stream = _Stream(self._client, self._params())
                    nursery.start_soon(stream.run)
                    with trio.move_on_after(PATIENCE):
                        await stream.begun.wait()
                    self._honoured = stream.honoured
                    following: trio.CancelScope | None = stream.scope
                else:
                    self._honoured, following = frozenset(), None
                if before is not None:
                    before.cancel()
                before = following
                self._settled = version
                self._wake()
                while self._version == version:
                    await self._changed.wait()

    def _params(self) -> Json:
        wanted: dict[str, object] = {f"{kind}ListChanged": True for kind in self._kinds}
        if self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        return msgspec.json.encode({"notifications": wanted})

    def _change(self) -> None:
        self._version += 1
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class _Stream:
    """One stream with one filter, opened again when it breaks."""

    def __init__(self, client: DeltaClient, params: Json) -> None:
        self._client = client
        self._params = params
        self.begun = trio.Event()
        self.scope = trio.CancelScope()
        self.honoured: frozenset[str] = frozenset()

    async def run(self) -> None:
        delay = FIRST_DELAY
        with self.scope:
            while True:
                opened = trio.current_time()
                try:
                    await self._client.request("subscriptions/listen", self._params, on_notification=self._take)
                except McpError:
                    self.begun.set()
                delay = FIRST_DELAY if trio.current_time() - opened > LAST_DELAY else min(2 * delay, LAST_DELAY)
                await trio.sleep(delay)
                if self.honoured:
                    self._missed()

    def _take(self, method: str, params: Json) -> None:
        if method == ACKNOWLEDGED:
            self.honoured = _honoured(params)
            self.begun.set()
        else:
            self._client.take_notification(method, params)

    def _missed(self) -> None:
        wanted = json_object(json_object(msgspec.json.decode(self._params)).get("notifications"))
        for uri in json_array(wanted.get("resourceSubscriptions")):
            self._client.take_notification("notifications/resources/updated", msgspec.json.encode({"uri": uri}))
        for kind in ("prompts", "resources"):
            if f"{kind}ListChanged" in wanted:
                self._client.take_notification(f"notifications/{kind}/list_changed", b"{}")


def _honoured(params: Json) -> frozenset[str]:
    """Return the resources, and `*` for the stream itself, that a server acknowledged."""
    try:
        told = json_object(json_object(msgspec.json.decode(params)).get("notifications"))
    except (msgspec.DecodeError, RecursionError):
        return frozenset()
    uris = {uri for uri in json_array(told.get("resourceSubscriptions")) if isinstance(uri, str)}
    return frozenset({"*", *uris})

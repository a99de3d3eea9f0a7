"""The resources of a connector that clients watch over one session: asked for once, and again with every new client."""

from __future__ import annotations

import msgspec
import trio

from delta_actors.mcp import DeltaClient, McpError, RpcError
from delta_actors.registry.listening import Listening
from delta_protocol.errors import ConnectorFailed, Overloaded, Refused
from delta_protocol.wire.message import Json

MOST = 10_000
"""Resources that are watched over one session."""
PATIENCE = 10.0
"""Seconds that a connector may take for one subscription."""


class Watching:
    """Who watches what over one session. `holders` are any names of clients."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._holders: dict[str, set[str]] = {}
        self._client: DeltaClient | None = None
        self._listening: Listening | None = None
        self._lock = trio.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    async def watch(self, uri: str, holder: str) -> None:
        """Return once the connector tells changes of the resource.

        Raises `Refused` where it does not, `ConnectorFailed`, `Overloaded`.
        """
        async with self._lock:
            if uri not in self._holders:
                if len(self._holders) >= MOST:
                    raise Overloaded(f"{self._connector}: {MOST} resources are watched already", retry_after=60.0)
                await self._begin(uri)
            self._holders.setdefault(uri, set()).add(holder)

    async def unwatch(self, uri: str, holder: str) -> None:
        """The holder watches the resource no more; with the last one the connector is told."""
        async with self._lock:
            holders = self._holders.get(uri, set())
            holders.discard(holder)
            if not holders and self._holders.pop(uri, None) is not None:
                await self._end(uri)

    async def clear(self) -> None:
        """Nobody watches anything any more."""
        async with self._lock:
            uris, self._holders = list(self._holders), {}
            for uri in uris:
                await self._end(uri)

    async def opened(self, client: DeltaClient, listening: Listening) -> list[str]:
        """Begin anew with a new client; return what may have changed meanwhile."""
        async with self._lock:
            self._client, self._listening = client, listening
            for uri in self._holders:
                try:
                    await self._begin(uri)
                except (Refused, ConnectorFailed):
                    continue
            return list(self._holders)

    def watched_by(self, told: str) -> str | None:
        """Return the watched resource that a notification is about: itself, or what it is part of (spec 1.9)."""
        if told in self._holders:
            return told
        return next((uri for uri in self._holders if told.startswith(uri)), None)

    async def _begin(self, uri: str) -> None:
        if self._client is None or self._listening is None:
            raise ConnectorFailed(f"{self._connector} is not running")
        try:
            with trio.move_on_after(PATIENCE) as limit:
                if self._client.era == "legacy":
                    await self._client.request("resources/subscribe", _params(uri))
                elif not await self._listening.watch(uri):
                    self._listening.unwatch(uri)
                    raise Refused(f"{self._connector} does not tell when {uri} changes")
        except RpcError as error:
            raise Refused(f"{self._connector} does not tell when {uri} changes: {error.message}") from None
        except McpError as error:
            raise ConnectorFailed(f"{self._connector}: {error.message}") from None
        if limit.cancelled_caught:
            raise ConnectorFailed(f"{self._connector}: no subscription within {PATIENCE:g} s")

    async def _end(self, uri: str) -> None:
        if self._client is None or self._listening is None:
            return
        if self._client.era == "modern":
            self._listening.unwatch(uri)
            return
        with trio.move_on_after(PATIENCE):
            try:
                await self._client.request("resources/unsubscribe", _params(uri))
            except McpError:
                return


def _params(uri: str) -> Json:
    return msgspec.json.encode({"uri": uri})

"""Keeps a connector's lists up to date: listed at the start, when it says that they changed, and when too old."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import trio
from msgspec import Raw

from delta_actors.mcp import DeltaClient, McpError, NoReply
from delta_actors.registry.offers import parts
from delta_protocol.catalogue.offers import List
from delta_protocol.wire.message import Json

log = logging.getLogger("delta.registry")

MAX_PAGES = 1000
AGE = 60.0
"""Seconds after which a list is looked at again, when a client was shown it and its server announces no changes."""
LEAST_AGE = 5.0
"""Seconds for which a list counts as fresh even where its server says that it is not."""


@dataclass(frozen=True, slots=True)
class _Source:
    method: str
    member: str
    part: str


SOURCES: dict[List, _Source] = {
    "prompts": _Source("prompts/list", "prompts", "prompts"),
    "resources": _Source("resources/list", "resources", "resources"),
    "templates": _Source("resources/templates/list", "resourceTemplates", "resources"),
}


class Listener(Protocol):
    """Who takes the lists."""

    def listed(self, name: str, listing: Sequence[Json]) -> None:
        """The connector's tools."""
        ...

    def offered(self, name: str, kind: List, listing: Sequence[Json]) -> None:
        """Another of the connector's lists."""
        ...


class Following:
    """One connector's lists over one session, for whose length `run` must run."""

    def __init__(self, name: str, client: DeltaClient, listener: Listener, limit: float) -> None:
        """`limit`: seconds for one list."""
        self._name = name
        self._client = client
        self._listener = listener
        self._limit = limit
        self._has = parts(client.capabilities)
        self._fresh_until: dict[List, float] = {}
        self._due: dict[List | str, None] = dict.fromkeys(kind for kind in SOURCES if SOURCES[kind].part in self._has)
        self._wake = trio.Event()
        client.on_tools_changed = lambda: self._again("tools")

    @property
    def announced(self) -> tuple[str, ...]:
        """The lists, besides tools, whose changes the server announces."""
        return tuple(kind for kind in ("prompts", "resources") if f"{kind}.listChanged" in self._has)

    def take(self, method: str) -> None:
        """The server told something that belongs to no call."""
        if method == "notifications/prompts/list_changed":
            self._again("prompts")
        elif method == "notifications/resources/list_changed":
            self._again("resources", "templates")

    def shown(self) -> None:
        """A client was shown the lists: list again those that are too old."""
        now = trio.current_time()
        self._again(*(kind for kind, until in self._fresh_until.items() if until <= now))

    def _again(self, *kinds: List | str) -> None:
        if kinds:
            self._due |= dict.fromkeys(kinds)
            self._wake.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            while self._due:
                kind = next(iter(self._due))
                del self._due[kind]
                await self._list(kind)
            await self._wake.wait()
            self._wake = trio.Event()

    async def _list(self, kind: List | str) -> None:
        try:
            with trio.move_on_after(self._limit):
                if kind in SOURCES:
                    await self._list_offer(kind)
                else:
                    self._listener.listed(self._name, await self._client.list_tools())
        except McpError as error:
            log.warning("connector %s: listing its %s failed: %s", self._name, kind, error.message)
        except Exception:  # the boundary to a connector: its listing must not stop the others
            log.exception("connector %s: its %s", self._name, kind)

    async def _list_offer(self, kind: List) -> None:
        source = SOURCES[kind]
        self._fresh_until[kind] = trio.current_time() + LEAST_AGE
        items, ttl = await list_all(self._client, source.method, source.member)
        announced = f"{source.part}.listChanged" in self._has
        age = max(ttl, LEAST_AGE) if ttl is not None else AGE
        # A server that says at once when a list changed and how long it holds is taken at the first word.
        self._fresh_until[kind] = math.inf if announced and not ttl else trio.current_time() + age
        self._listener.offered(self._name, kind, items)


class _Page(msgspec.Struct, rename="camel"):
    next_cursor: str | None = None
    ttl_ms: float | None = None


async def list_all(client: DeltaClient, method: str, member: str) -> tuple[list[Json], float | None]:
    """Return all pages of a list, and the shortest time in seconds for which a page says that it holds.

    Raises `RpcError`, `NotSent`, `NoReply`.
    """
    items: list[Json] = []
    ttl: float | None = None
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = msgspec.json.encode({} if cursor is None else {"cursor": cursor})
        text = await client.request(method, params)
        try:
            page = msgspec.json.decode(text, type=_Page)
            listed = msgspec.json.decode(text, type=dict[str, Raw])[member]
            items += (bytes(item) for item in msgspec.json.decode(listed, type=list[Raw]))
        except (msgspec.DecodeError, RecursionError, KeyError) as error:
            raise NoReply(f"{method}: the answer is against the protocol: {error}") from None
        if page.ttl_ms is not None:
            ttl = min(page.ttl_ms / 1000, math.inf if ttl is None else ttl)
        cursor = page.next_cursor
        if cursor is None:
            return items, ttl
        if cursor in seen:
            break
        seen.add(cursor)
    raise NoReply(f"{method}: the server's pages do not end")

"""What connectors offer beside tools, as the registry last told it, under the names that clients see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import trio

from delta_actors.runtime.actor import Ref
from delta_protocol.catalogue.offers import Offers, Shown
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import DeltaError
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import GetOffers, ListsShown, OffersChanged, ResourceUpdated, WatchOffers

_RETRY = 0.2
_SHOWN_EVERY = 1.0
"""Seconds between two words to the registry that clients look at the lists."""

_HOLDS_RESOURCES = frozenset({"content", "contents", "messages", "resource"})
Kind = Literal["prompts", "resources"]


class Offered:
    """Follows the offers; `watch` runs beside the gateway.

    `on_changed` hears which lists changed, `on_updated` which watched resource did (None: the registry began anew, and
    knows of no subscription).
    """

    def __init__(
        self,
        registry: Ref,
        on_changed: Callable[[Kind], None],
        on_updated: Callable[[ResourceUpdated | None], None],
    ) -> None:
        self._registry = registry
        self._on_changed = on_changed
        self._on_updated = on_updated
        self._shown = Shown(Offers(0, ()))
        self._known = trio.Event()
        self._ever: set[str] = set()
        self._told = -_SHOWN_EVERY

    @property
    def shown(self) -> Shown:
        """The lists."""
        return self._shown

    def has(self, part: str) -> bool:
        """Whether a connector has that part of the protocol, or had it since this gateway began.

        So what a client was told at its handshake stays true; a connector that is down offers what it last did.
        """
        return part in self._ever

    async def wait_known(self, limit: float) -> None:
        """Return once the offers are known, after `limit` seconds in any case."""
        with trio.move_on_after(limit):
            await self._known.wait()

    def with_shown_uris(self, connector: str, result: Json) -> Json:
        """Return a connector's result with the URIs that clients know its resources by (spec 1.20)."""
        if not self._shown.renames(connector) or b'"uri"' not in result:
            return result
        return exact_json.encode(self._renamed(connector, exact_json.decode(result)))

    def _renamed(self, connector: str, value: Any) -> Any:  # noqa: ANN401 - JSON from a peer
        if is_array(value):
            return [self._renamed(connector, item) for item in value]
        if not is_object(value):
            return value
        # What a tool returns as data is its own; only the protocol's own places hold URIs of resources.
        named = {
            key: self._renamed(connector, item) if key in _HOLDS_RESOURCES else item for key, item in value.items()
        }
        uri = named.get("uri")
        if isinstance(uri, str):
            named["uri"] = self._shown.shown_uri(connector, uri)
        return named

    async def looked(self) -> None:
        """Tell the registry that a client looks at the lists."""
        now = trio.current_time()
        if now - self._told < _SHOWN_EVERY:
            await trio.lowlevel.checkpoint()
            return
        self._told = now
        try:
            await self._registry.tell(ListsShown())
        except DeltaError:
            return

    async def watch(self) -> None:
        """Follow the registry for ever; begins anew when it was restarted."""
        while True:
            try:
                await self._follow()
            except DeltaError:
                await trio.sleep(_RETRY)

    async def _follow(self) -> None:
        offers = await self._registry.ask(GetOffers())
        self._take(offers)
        began = False
        async with self._registry.stream(WatchOffers()) as items:
            async for item in items:
                if not began:
                    began = True
                    self._on_updated(None)
                if isinstance(item, OffersChanged) and item.number > offers.number:
                    offers = await self._registry.ask(GetOffers())
                    self._take(offers)
                elif isinstance(item, ResourceUpdated):
                    self._on_updated(item)

    def _take(self, offers: Offers) -> None:
        before, after = self._shown, Shown(offers)
        self._shown = after
        self._ever.update(part for offer in offers.offers for part in offer.has)
        self._known.set()
        if before.number == 0:
            return
        if before.prompts != after.prompts:
            self._on_changed("prompts")
        if (before.resources, before.templates) != (after.resources, after.templates):
            self._on_changed("resources")

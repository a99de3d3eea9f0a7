"""What connectors offer beside tools, as they last listed it: numbered, remembered, answered without asking anybody."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec

from delta_actors.registry.memory import OfferMemory, RememberedOffer
from delta_protocol.catalogue.offers import List, Offer, Offers, usable
from delta_protocol.wire.message import Json

log = logging.getLogger("delta.registry")

MOST_ITEMS = 10_000
MOST_BYTES = 4 << 20
"""Of one list of one connector; what is beyond is left out, and logged."""
MOST_BYTES_IN_ALL = 32 << 20
"""Of all lists together, which travel in one message: one connector must not leave the others without theirs."""


class OfferBook:
    """The offers of the configured connectors, in their order."""

    def __init__(self, connectors: Sequence[str], memory: OfferMemory) -> None:
        before = {entry.name: _offer(entry) for entry in memory.connectors}
        self._offers = {name: before.get(name, Offer(name)) for name in connectors}
        self._number = 1

    @property
    def newest(self) -> Offers:
        """The offers of now."""
        return Offers(self._number, tuple(self._offers.values()))

    @property
    def memory(self) -> OfferMemory:
        """What is to be remembered."""
        return OfferMemory(connectors=tuple(_remembered(offer) for offer in self._offers.values()))

    def opened(self, name: str, has: tuple[str, ...]) -> bool:
        """Take which parts of the protocol a session's server has. Return whether that is something new."""
        lost: dict[str, tuple[Json, ...]] = {}
        if "resources" not in has:
            lost |= {"resources": (), "templates": ()}
        if "prompts" not in has:
            lost |= {"prompts": ()}
        return self._take(name, {"has": has, **lost})

    def listed(self, name: str, kind: List, items: Sequence[Json]) -> bool:
        """Take one of a connector's lists. Return whether it is another one than before."""
        found = usable(items, kind)
        kept = _bounded(found, min(MOST_BYTES, self._room(name, kind)))
        if len(kept) < len(found):
            log.warning("connector %s: %d of its %d %s are left out", name, len(found) - len(kept), len(found), kind)
        return self._take(name, {kind: kept})

    def _room(self, name: str, kind: List) -> int:
        """Return how many bytes are left for a list."""
        taken = sum(
            len(text)
            for offer in self._offers.values()
            for each in (offer.resources, offer.templates, offer.prompts)
            for text in each
        )
        return MOST_BYTES_IN_ALL - taken + sum(map(len, getattr(self._offers[name], kind)))

    def _take(self, name: str, changes: Mapping[str, tuple[str, ...] | tuple[Json, ...]]) -> bool:
        before = self._offers[name]
        after = msgspec.structs.replace(before, **changes)
        if after == before:
            return False
        self._offers[name] = after
        self._number += 1
        return True


def parts(capabilities: Json) -> tuple[str, ...]:
    """Return which parts a ServerCapabilities object declares; see `Offer.has`."""
    try:
        declared = msgspec.json.decode(capabilities, type=_Capabilities)
    except (msgspec.DecodeError, RecursionError):
        return ()
    found = [name for name in ("resources", "prompts", "completions", "logging") if getattr(declared, name) is not None]
    if declared.resources is not None and declared.resources.subscribe:
        found.append("resources.subscribe")
    announced = (("resources", declared.resources), ("prompts", declared.prompts))
    found += [f"{name}.listChanged" for name, part in announced if part is not None and part.list_changed]
    return tuple(sorted(found))


class _Part(msgspec.Struct, rename="camel"):
    list_changed: bool = False
    subscribe: bool = False


class _Capabilities(msgspec.Struct):
    resources: _Part | None = None
    prompts: _Part | None = None
    completions: _Part | None = None
    logging: _Part | None = None


def _bounded(items: tuple[Json, ...], room: int) -> tuple[Json, ...]:
    size = 0
    for index, item in enumerate(items):
        size += len(item)
        if index >= MOST_ITEMS or size > room:
            return items[:index]
    return items


def _offer(entry: RememberedOffer) -> Offer:
    return Offer(
        entry.name,
        tuple(text.encode() for text in entry.resources),
        tuple(text.encode() for text in entry.templates),
        tuple(text.encode() for text in entry.prompts),
        entry.has,
    )


def _remembered(offer: Offer) -> RememberedOffer:
    return RememberedOffer(
        offer.connector,
        tuple(text.decode() for text in offer.resources),
        tuple(text.decode() for text in offer.templates),
        tuple(text.decode() for text in offer.prompts),
        offer.has,
    )

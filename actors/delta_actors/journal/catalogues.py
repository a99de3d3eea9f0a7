"""Catalogues that plans are checked against, fetched once each: a number stands for its contents for ever."""

from __future__ import annotations

from delta_actors.runtime.actor import Ref
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.wire.registry import GetCatalogue, NewestCatalogue

KEPT = 8
"""Catalogues in memory; a large one takes some megabytes."""


class Catalogues:
    """The registry's snapshots by number, as they were when fetched: connectors' health in them is not to be used."""

    def __init__(self, registry: Ref) -> None:
        self._registry = registry
        self._kept: dict[int, Catalogue] = {}

    async def newest(self) -> Catalogue:
        """Return the newest catalogue; only its number crosses the link while nothing has changed."""
        number = await self._registry.ask(NewestCatalogue())
        if number < max(self._kept, default=0):
            # A registry that lost its file counts anew.
            self._kept.clear()
        return await self.of(number)

    async def of(self, number: int) -> Catalogue:
        """Return the catalogue of that number. Raises `NotFound` when the registry no longer keeps it."""
        if number not in self._kept:
            catalogue = await self._registry.ask(GetCatalogue(number))
            self._kept[catalogue.number] = catalogue
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            return catalogue
        self._kept[number] = self._kept.pop(number)
        return self._kept[number]

    def statistics(self) -> dict[str, object]:
        """Return which catalogues are kept."""
        return {"catalogues": sorted(self._kept)}

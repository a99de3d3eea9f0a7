"""The newest catalogue as the registry told it, and what changed on the way there."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import trio

from delta_actors.runtime.actor import Ref
from delta_protocol.catalogue.model import Catalogue, Connector, ConnectorState
from delta_protocol.errors import DeltaError
from delta_protocol.wire.registry import CatalogueChanged, GetCatalogue, StartConnectors, WatchCatalogue

_NOTES_KEPT = 200
_RETRY = 0.2


class Catalogues:
    """Follows the registry's catalogue; `watch` runs beside the gateway."""

    def __init__(self, registry: Ref) -> None:
        self._registry = registry
        self._newest: Catalogue | None = None
        self._changed = trio.Event()
        self._notes: deque[tuple[int, str]] = deque(maxlen=_NOTES_KEPT)
        self._started = False

    async def newest(self) -> Catalogue:
        """Return the newest catalogue known, asking the registry only when there is none yet."""
        if self._newest is None:
            self._take(await self._registry.ask(GetCatalogue(), nowait=True))
        assert self._newest is not None
        return self._newest

    async def wait_changed(self) -> None:
        """Return when there is a newer catalogue."""
        await self._changed.wait()

    async def with_started(self, mentioned: str) -> Catalogue:
        """Return the newest catalogue, once no connector that `mentioned` names is still starting for the first time.

        Waits as long as the caller's scope lets it.
        """
        catalogue = await self.newest()
        while any(_awaited(connector, mentioned) for connector in catalogue.connectors):
            await self.wait_changed()
            catalogue = await self.newest()
        return catalogue

    def news_since(self, number: int | None) -> tuple[int | None, Sequence[str]]:
        """Return up to which number changes are known, and those after `number` in words, oldest first.

        None stands for who has seen no catalogue: nothing is news to him.
        """
        if number is None:
            return None if self._newest is None else self._newest.number, ()
        news = [(at, note) for at, note in self._notes if at > number]
        return max((at for at, _ in news), default=number), [note for _, note in news]

    async def start_connectors(self) -> None:
        """Tell the registry, once, that a client has had its first answer; `watch` tells every later incarnation."""
        if self._started:
            return
        self._started = True
        try:
            await self._registry.tell(StartConnectors())
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
        catalogue = await self._registry.ask(GetCatalogue())
        self._take(catalogue)
        if self._started:
            await self._registry.tell(StartConnectors())
        async with self._registry.stream(WatchCatalogue(since=catalogue.number)) as items:
            async for item in items:
                if isinstance(item, CatalogueChanged):
                    self._notes.extend((item.number, note) for note in item.notes)
                    if self._newest is None or item.number > self._newest.number:
                        self._take(await self._registry.ask(GetCatalogue()))

    def _take(self, catalogue: Catalogue) -> None:
        if self._newest is not None and catalogue.number <= self._newest.number:
            return
        self._newest = catalogue
        self._changed.set()
        self._changed = trio.Event()


def _awaited(connector: Connector, mentioned: str) -> bool:
    """Whether `mentioned` needs a connector of which nothing is known before it has started."""
    if connector.state is not ConnectorState.STARTING or connector.tools:
        return False
    return any(re.search(rf"\b{re.escape(name)}\b", mentioned) for name in {connector.name, connector.namespace})

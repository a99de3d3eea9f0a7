"""Who hears what a connector lists and how it is: the registry, as an `Upstream` knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from delta_actors.mcp import DeltaClient
from delta_protocol.catalogue.model import ConnectorState
from delta_protocol.catalogue.offers import List
from delta_protocol.wire.message import Json


class Listener(Protocol):
    """Who hears what a connector lists and how it is."""

    def era(self, name: str) -> str:
        """The era it was last seen in, empty if unknown."""
        ...

    def opened(self, name: str, client: DeltaClient) -> None:
        """A session is open."""
        ...

    def forget_era(self, name: str) -> None:
        """A session could not be opened in the remembered era."""
        ...

    def listed(self, name: str, listing: Sequence[Json]) -> None:
        """The connector's tools."""
        ...

    def offered(self, name: str, kind: List, listing: Sequence[Json]) -> None:
        """Another of the connector's lists."""
        ...

    def updated(self, name: str, principal: str, conversation: str, uri: str) -> None:
        """A resource changed, as a session of this principal and conversation heard (empty: of everybody)."""
        ...

    def health(self, name: str, state: ConnectorState, detail: str) -> None:
        """The state of the connector's first session."""
        ...

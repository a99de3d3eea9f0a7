"""BM25 over names, descriptions and argument names (`delta_read {refs: ["search:…"]}`)."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from delta_protocol.catalogue import schemas
from delta_protocol.catalogue.model import Catalogue, Collection, Connector, ConnectorState, Tool
from delta_protocol.catalogue.visible import one_line
from delta_protocol.codecs import exact_json
from delta_protocol.ranking import counted, scores
from delta_protocol.wire.message import Json

ABOUT_LENGTH = 120
MAX_CACHED = 8_192


class Hit(NamedTuple):
    """`name` is the identifier in programs: `<connector>.<name>` is a ref. Higher scores are better."""

    connector: str
    name: str
    kind: str
    """`tool` | `collection`."""
    score: float
    about: str


def search(catalogue: Catalogue, words: str, limit: int = 10) -> tuple[Hit, ...]:
    """Return the best `limit` tools and collections for the words, best first; equal ones in catalogue order."""
    documents = [entry for connector in catalogue.connectors for entry in _entries(connector)]
    found = scores([counts for _, counts in documents], words)
    hits = [hit._replace(score=score) for (hit, _), score in zip(documents, found, strict=True) if score > 0]
    best = sorted(hits, key=lambda hit: -hit.score)[:limit]
    return tuple(hit._replace(about=one_line(hit.about, ABOUT_LENGTH)) for hit in best)


def _entries(connector: Connector) -> list[tuple[Hit, Counter[str]]]:
    if connector.state is ConnectorState.GONE:
        return []
    alias = connector.namespace
    found = [_collection(alias, connector, collection) for collection in connector.collections]
    return found + [_tool(alias, connector, tool) for tool in connector.tools if not tool.gone]


def _collection(alias: str, connector: Connector, collection: Collection) -> tuple[Hit, Counter[str]]:
    counts = counted(f"{connector.name} {collection.name}", " ".join(collection.fields))
    about = f"collection; fields {', '.join(collection.fields)}"
    return Hit(alias, collection.name, "collection", 0.0, about), counts


def _tool(alias: str, connector: Connector, tool: Tool) -> tuple[Hit, Counter[str]]:
    counts = _tool_words(connector.name, tool.name, tool.description, tool.input_schema)
    return Hit(alias, tool.alias, "tool", 0.0, tool.description), counts


@lru_cache(maxsize=MAX_CACHED)
def _tool_words(connector: str, name: str, description: str, input_schema: Json) -> Counter[str]:
    """Counting all words of a large catalogue takes a tenth of a second; they are the same for every search."""
    parameters = " ".join(schemas.properties(exact_json.decode(input_schema)))
    return counted(f"{connector} {name}", f"{description} {parameters}")

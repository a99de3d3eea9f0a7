"""BM25 over names, descriptions and argument names (`delta_read {refs: ["search:…"]}`)."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from delta_protocol.catalogue import names, schemas
from delta_protocol.catalogue.model import Catalogue, Collection, Connector, ConnectorState, Tool
from delta_protocol.catalogue.visible import one_line
from delta_protocol.codecs import exact_json

K1, B = 1.2, 0.6
NAME_WEIGHT = 4
"""A word in a name counts as often as this many in a description."""


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
    wanted = set(_terms(words))
    if not documents or not wanted:
        return ()
    mean = sum(counts.total() for _, counts in documents) / len(documents)
    weights = {term: _rarity(sum(term in counts for _, counts in documents), len(documents)) for term in wanted}
    hits: list[Hit] = []
    for hit, counts in documents:
        norm = K1 * (1 - B + B * counts.total() / mean)
        score = sum(weights[term] * counts[term] * (K1 + 1) / (counts[term] + norm) for term in wanted & counts.keys())
        if score > 0:
            hits.append(hit._replace(score=score))
    return tuple(sorted(hits, key=lambda hit: -hit.score)[:limit])


def _rarity(containing: int, total: int) -> float:
    return math.log(1 + (total - containing + 0.5) / (containing + 0.5))


def _entries(connector: Connector) -> list[tuple[Hit, Counter[str]]]:
    if connector.state is ConnectorState.GONE:
        return []
    alias = connector.alias or names.connector_alias(connector.name)
    found = [_collection(alias, connector, collection) for collection in connector.collections]
    return found + [_tool(alias, connector, tool) for tool in connector.tools if not tool.gone]


def _collection(alias: str, connector: Connector, collection: Collection) -> tuple[Hit, Counter[str]]:
    counts = _counted(f"{connector.name} {collection.name}", " ".join(collection.fields))
    about = f"collection; fields {', '.join(collection.fields)}"
    return Hit(alias, collection.name, "collection", 0.0, one_line(about, 120)), counts


def _tool(alias: str, connector: Connector, tool: Tool) -> tuple[Hit, Counter[str]]:
    parameters = " ".join(schemas.properties(exact_json.decode(tool.input_schema)))
    counts = _counted(f"{connector.name} {tool.name}", f"{tool.description} {parameters}")
    return Hit(alias, tool.alias, "tool", 0.0, one_line(tool.description, 120)), counts


def _counted(name: str, rest: str) -> Counter[str]:
    counts = Counter(_terms(rest))
    for term in _terms(name):
        counts[term] += NAME_WEIGHT
    return counts


def _terms(text: str) -> list[str]:
    return [names.singular(word) for word in names.words(text)]

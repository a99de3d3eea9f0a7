"""The API text: what a model reads about the connectors, in the description of the `code` argument (three-tools 3).

A pure function of the catalogue's tools and order: health, times and numbers do not show, so the text is equal byte for
byte over restarts. Every connector, collection and tool is named whatever the budget; signatures are shortened, longest
first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from functools import partial

from delta_protocol import tokens
from delta_protocol.catalogue import signatures
from delta_protocol.catalogue.model import Catalogue, Connector, ConnectorState
from delta_protocol.catalogue.notation import Level
from delta_protocol.errors import LimitExceeded

HEAD = (
    "JavaScript (ES2023, top-level await and return). Exact types and descriptions: delta_read {refs: "
    '["<connector>.<name>"]}; everything: refs [""]; by words: ["search:<words>"].\n'
    "x? may be left out, untyped is string, a|b a choice, x[] an array, ! writes (planned, made at the end), "
    "!! cannot be undone; a name without () is shortened.\n"
    "Entities change by assignment: t.status = …, t.labels.push(…)."
)


def render(catalogue: Catalogue, budget_tokens: int) -> str:
    """Return the text, at most `budget_tokens` (o200k) long.

    Raises `LimitExceeded` (`detail`: limit, budget, needed) where even the names do not fit.
    """
    text = _Text()
    text.fixed(HEAD)
    for connector in catalogue.connectors:
        _connector(text, connector)
    return text.fit(budget_tokens)


def _connector(text: _Text, connector: Connector) -> None:
    alias = connector.namespace
    title = f"\n## {alias}" if alias == connector.name else f"\n## {alias} (connector {connector.name})"
    if connector.state is ConnectorState.GONE:
        text.fixed(f"{title}: gone")
        return
    if not connector.tools:
        text.fixed(f"{title}: starting")
        return
    text.fixed(title)
    covered: dict[str, None] = {}
    for collection in connector.collections:
        covered |= dict.fromkeys(_covered(connector, collection.name))
        text.entry(partial(signatures.collection_line, connector, collection))
    if covered:
        text.fixed(f"also as tools: {' '.join(covered)}")
    renamed: list[str] = []
    for tool in connector.tools:
        if tool.alias not in covered:
            text.entry(partial(signatures.tool_line, tool))
        if tool.alias != tool.name:
            renamed.append(f"{tool.alias} = {signatures.quoted(tool.name)}")
    if renamed:
        text.fixed(f"renamed: {', '.join(renamed)}")


def _covered(connector: Connector, collection_name: str) -> Iterator[str]:
    """The identifiers of the tools that a collection stands for, in the tools' order."""
    collection = next(found for found in connector.collections if found.name == collection_name)
    tools = signatures.bound_tools(collection)
    return (tool.alias for tool in connector.tools if tool.name in tools and not tool.gone)


class _Text:
    """Lines, of which some can be shortened."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._entries: list[tuple[int, Callable[[Level], str]]] = []

    def fixed(self, line: str) -> None:
        """Add a line that stays as it is."""
        self._lines.append(line)

    def entry(self, render_at: Callable[[Level], str]) -> None:
        """Add a line that `render_at` gives at any level."""
        self._entries.append((len(self._lines), render_at))
        self._lines.append(render_at(Level.TYPED))

    def fit(self, budget: int) -> str:
        """Shorten the longest lines, step by step, until the whole fits."""
        lines = self._lines
        cost = [_cost(line) for line in lines]
        total = sum(cost)
        heap = [(-cost[place], place, int(Level.TYPED), render_at) for place, render_at in self._entries]
        heapq.heapify(heap)
        while total > budget and heap:
            _, place, level, render_at = heapq.heappop(heap)
            shorter = render_at(Level(level - 1))
            total -= cost[place]
            lines[place], cost[place] = shorter, _cost(shorter)
            total += cost[place]
            if level - 1 > Level.NAME:
                heapq.heappush(heap, (-cost[place], place, level - 1, render_at))
        if total > budget:
            needed = math.ceil(total)
            raise LimitExceeded(
                f"limits.api_tokens = {budget} is too small: the connectors' names alone need {needed} tokens. "
                "Raise it, or disable connectors.",
                limit="api_tokens",
                budget=budget,
                needed=needed,
            )
        return "\n".join(lines)


def _cost(line: str) -> float:
    """The line's tokens, its end included."""
    return tokens.cost(line) + 1

"""The order of a plan's calls: dependencies first, then creates, updates, relations, deletes; what cannot be taken back
last where nothing forbids it (plan-apply-undo 5.8)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

GROUPS = {"create": 0, "update": 1, "call": 1, "add": 2, "remove": 2, "delete": 3}


@dataclass(frozen=True, slots=True)
class Item:
    """What ordering needs to know. `after`: indexes of items whose results this one uses. `subject`: the entity, or the
    connector for a call of which nothing is known; `seq`: program order."""

    seq: int
    operation: str
    irreversible: bool
    after: frozenset[int]
    subject: str
    connector: str
    opaque: bool


def ordered(items: Sequence[Item]) -> list[int]:
    """Return the indexes of `items` in the order to make them."""
    waits = [set(item.after) for item in items]
    for index, item in enumerate(items):
        for other, earlier in enumerate(items):
            if other != index and (earlier.seq, other) < (item.seq, index) and _keeps_order(earlier, item):
                waits[index].add(other)
    ready = [(_rank(items[index]), index) for index, needs in enumerate(waits) if not needs]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(index)
        for other, needs in enumerate(waits):
            if index in needs:
                needs.discard(index)
                if not needs:
                    heapq.heappush(ready, (_rank(items[other]), other))
    return order


def _keeps_order(earlier: Item, later: Item) -> bool:
    if earlier.connector != later.connector:
        return False
    # What an unknown tool touches is unknown: its place among the connector's other calls is kept.
    return earlier.opaque or later.opaque or earlier.subject == later.subject


def _rank(item: Item) -> tuple[bool, int, int]:
    return (item.irreversible, GROUPS.get(item.operation, 1), item.seq)

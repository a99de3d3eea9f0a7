"""Entity locks: held from the re-read to the read-back, so that two deltas never write to one entity at a time.

A delta takes all its locks at once, in first come first served order, so no two can wait for each other. A call of
which no entity is known takes its whole connector.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from delta_protocol.changes.images import entity_name
from delta_protocol.changes.model import Plan

WHOLE = ""
"""Stands for every entity of a connector."""


def locks_of(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return what the plan locks, sorted: (connector, entity), the entity `WHOLE` for all of the connector's."""
    names = {(call.connector, entity_name(call.entity) if call.entity else WHOLE) for call in plan.calls}
    names |= {(each.entity.connector, entity_name(each.entity)) for each in plan.preconditions}
    return tuple(sorted(names))


@dataclass(slots=True, eq=False)
class _Claim:
    names: frozenset[tuple[str, str]]
    granted: trio.Event = field(default_factory=trio.Event)

    def meets(self, other: _Claim) -> bool:
        if self.names & other.names:
            return True
        whole = {name for name, entity in self.names if entity == WHOLE}
        theirs = {name for name, entity in other.names if entity == WHOLE}
        return any(name in whole for name, _ in other.names) or any(name in theirs for name, _ in self.names)


class Locks:
    """The locks of one journal."""

    def __init__(self) -> None:
        self._claims: list[_Claim] = []

    @asynccontextmanager
    async def hold(self, names: Iterable[tuple[str, str]]) -> AsyncGenerator[None, None]:
        """Wait until all are free, then hold them."""
        claim = _Claim(frozenset(names))
        self._claims.append(claim)
        try:
            self._grant()
            await claim.granted.wait()
            yield
        finally:
            self._claims.remove(claim)
            self._grant()

    def _grant(self) -> None:
        for index, claim in enumerate(self._claims):
            if not claim.granted.is_set() and not any(claim.meets(other) for other in self._claims[:index]):
                claim.granted.set()

    def statistics(self) -> dict[str, int]:
        """Return how many deltas hold and wait for locks."""
        held = sum(1 for claim in self._claims if claim.granted.is_set())
        return {"held": held, "waiting": len(self._claims) - held}

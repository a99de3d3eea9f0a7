"""What the journal keeps, and the small interface behind which it keeps it.

A store owns durability and the compare-and-set on states; it knows nothing of connectors, modes or people.
Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from delta_protocol.changes.model import CallState, DeltaState, FieldConflict, Plan, Read, Value
from delta_protocol.changes.steps import CallChange
from delta_protocol.wire.message import Json


class Fixed(msgspec.Struct, frozen=True, array_like=True):
    """What is written once per delta: the program and the plan made of it. Secrets are redacted before they come
    here.
    """

    code: str = ""
    options: str = ""
    frozen_time: int = 0
    seed: int = 0
    catalogue: int = 0
    plan: Plan = Plan(0, ())
    returned: Value = Value(b"null")
    reads: tuple[Read, ...] = ()
    notes: tuple[str, ...] = ()
    card: str = ""
    pins: tuple[str, ...] = ()
    """Per call, the digest of its tool's definition when the plan was made."""
    redacted: bool = False
    """Something was redacted in the plan: it cannot be applied from here."""


class CallRecord(msgspec.Struct, frozen=True, array_like=True):
    """One call of a delta."""

    number: int
    state: CallState = CallState.PLANNED
    detail: str = ""
    result: Json | None = None
    after: Json | None = None
    probe: str = ""
    stage: int = 1
    reversibility: str = ""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One delta. `needs_person`: an approval bound to `plan.hash` is required; `approved_by` is the channel that gave
    it.
    """

    id: str
    state: DeltaState
    principal: str
    conversation: str
    fingerprint: str
    created: float
    changed: float
    fixed: Fixed = Fixed()
    calls: tuple[CallRecord, ...] = ()
    duration: float = 0.0
    expires: float | None = None
    undo_of: str | None = None
    undone_by: str | None = None
    reason: str = ""
    needs_person: bool = False
    approved_by: str = ""
    approved_at: float | None = None
    lease: str = ""
    stage: int = 1
    conflicts: tuple[FieldConflict, ...] = ()


class Move(msgspec.Struct, frozen=True):
    """One durable step: states of the delta (None: unchanged) and of calls, and what goes with them (None: unchanged).

    `expect`: the states the delta must be in, else the step is refused.
    """

    at: float
    expect: frozenset[DeltaState]
    to: DeltaState | None = None
    calls: Mapping[int, CallChange] = {}
    reason: str | None = None
    conflicts: tuple[FieldConflict, ...] | None = None
    duration: float | None = None
    lease: str | None = None
    approved_by: str | None = None
    undone_by: str | None = None
    """Empty clears it."""
    note: str = ""
    """For the event log."""


class Store(Protocol):
    """Durable when it returns. Safe to use from many tasks at once."""

    async def insert(self, record: Record) -> None:
        """Store a new delta with its calls."""
        ...

    async def move(self, delta: str, *moves: Move, also: Mapping[str, Move] = {}) -> Record:
        """Make moves of one delta (and one move each of others, `also`) in one transaction; return the delta as it
        then is.

        Raises `Refused` (with the state it is in) when the delta is in none of the expected states or the table of
        states does not allow the move, `NotFound` for an unknown id. Then nothing is stored.
        """
        ...

    async def get(self, delta: str) -> Record | None:
        """Return one delta."""
        ...

    async def find_repeat(self, fingerprint: str, since: float) -> Record | None:
        """Return the newest delta of that fingerprint created after `since` that is applied, being applied, or
        pending.
        """
        ...

    async def page(self, principal: str | None, before: str | None, limit: int) -> tuple[Record, ...]:
        """Return deltas, newest first; of one principal unless None."""
        ...

    async def in_states(self, states: Iterable[DeltaState]) -> tuple[str, ...]:
        """Return the ids of all deltas in those states, oldest first."""
        ...

    async def expired(self, now: float) -> tuple[str, ...]:
        """Return the ids of pending deltas whose time is over."""
        ...

    async def ids_like(self, delta: str, principal: str | None) -> tuple[str, ...]:
        """Return recent ids, for the message when one is not known."""
        ...

    async def prune(self, before: float, keep: int) -> int:
        """Drop ended deltas older than `before`, and the oldest beyond `keep`; return how many."""
        ...

    async def close(self) -> None:
        """Finish what was begun and close."""
        ...

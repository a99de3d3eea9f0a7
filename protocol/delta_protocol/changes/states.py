"""The two state tables, of a delta and of one planned call. Everything that moves a state asks here.

Sans-IO: the journal's store makes a move durable (compare-and-set). Source: plan-apply-undo, States of a delta and
5.10. `docs/changes.md` carries the pictures made from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta_protocol.changes.model import CallState, DeltaState

_D = DeltaState
_C = CallState

DELTA: Mapping[DeltaState, frozenset[DeltaState]] = {
    # waiting -> planned is a person's approval: what is planned may be applied.
    _D.PLANNED: frozenset({_D.WAITING, _D.APPLYING, _D.APPLIED, _D.DECLINED, _D.EXPIRED, _D.REFUSED}),
    _D.WAITING: frozenset({_D.PLANNED, _D.APPLYING, _D.DECLINED, _D.EXPIRED, _D.REFUSED}),
    # applying -> planned or waiting: stopped before anything was sent, the approval is still good.
    _D.APPLYING: frozenset(
        {_D.APPLIED, _D.ROLLING_BACK, _D.REFUSED, _D.PARTIAL, _D.UNKNOWN, _D.INTERRUPTED, _D.PLANNED}
    ),
    _D.ROLLING_BACK: frozenset({_D.ROLLED_BACK, _D.PARTIAL, _D.UNKNOWN}),
    _D.INTERRUPTED: frozenset({_D.APPLYING, _D.ROLLING_BACK}),
    _D.APPLIED: frozenset({_D.UNDOING}),
    _D.PARTIAL: frozenset({_D.UNDOING}),
    # unknown -> an end: looked at again later, its calls are known.
    _D.UNKNOWN: frozenset({_D.UNDOING, _D.APPLIED, _D.PARTIAL, _D.ROLLED_BACK}),
    # partly_undone -> undone: the undo had ended unknown, and a later look showed all of it made.
    _D.PARTLY_UNDONE: frozenset({_D.UNDOING, _D.UNDONE}),
    # undoing -> back: the undo was rolled back or refused, what stood before stands again.
    _D.UNDOING: frozenset({_D.UNDONE, _D.PARTLY_UNDONE, _D.APPLIED, _D.PARTIAL, _D.UNKNOWN}),
    _D.UNDONE: frozenset(),
    _D.DECLINED: frozenset(),
    _D.EXPIRED: frozenset(),
    _D.REFUSED: frozenset(),
    # A program without a plan begins and ends here.
    _D.FAILED: frozenset(),
    _D.ROLLED_BACK: frozenset(),
}

CALL: Mapping[CallState, frozenset[CallState]] = {
    _C.PLANNED: frozenset({_C.INTENT}),
    # intent -> planned: known not to have left (rate limit, connector down before the bytes went out).
    _C.INTENT: frozenset({_C.SENT, _C.ACKED, _C.FAILED, _C.UNKNOWN, _C.PLANNED}),
    # sent: left here, no answer came; a probe decides. -> intent: probed as not made, and safe to send again.
    _C.SENT: frozenset({_C.ACKED, _C.FAILED, _C.UNKNOWN, _C.INTENT}),
    _C.ACKED: frozenset({_C.VERIFIED, _C.DIFFERS, _C.UNVERIFIABLE, _C.COMPENSATING}),
    _C.FAILED: frozenset(),
    _C.UNKNOWN: frozenset({_C.ACKED, _C.FAILED}),
    _C.VERIFIED: frozenset({_C.COMPENSATING}),
    _C.DIFFERS: frozenset({_C.COMPENSATING}),
    _C.UNVERIFIABLE: frozenset({_C.COMPENSATING}),
    _C.COMPENSATING: frozenset({_C.COMPENSATED, _C.COMPENSATION_FAILED}),
    _C.COMPENSATED: frozenset(),
    _C.COMPENSATION_FAILED: frozenset({_C.COMPENSATING}),
}

PENDING = frozenset({_D.WAITING, _D.PLANNED})
"""May still be applied, declined or expire."""

MOVING = frozenset({_D.APPLYING, _D.ROLLING_BACK})
"""Owned by an apply; found after a crash, recovery takes them up."""

UNDOABLE = frozenset({_D.APPLIED, _D.PARTIAL, _D.UNKNOWN, _D.PARTLY_UNDONE})
"""Something of it may stand, and can be taken back."""

MADE = frozenset({_C.ACKED, _C.VERIFIED, _C.DIFFERS, _C.UNVERIFIABLE})
"""The connector said that the call was made, and it was not taken back."""

MAYBE_SENT = frozenset({_C.INTENT, _C.SENT})
"""After a crash nobody knows whether the bytes left: probed, never assumed."""


def may_move(old: DeltaState, new: DeltaState) -> bool:
    """Return whether the table of deltas allows the move."""
    return new in DELTA[old]


def call_may_move(old: CallState, new: CallState) -> bool:
    """Return whether the table of calls allows the move."""
    return new in CALL[old]


def diagram(table: Mapping[DeltaState, frozenset[DeltaState]] | Mapping[CallState, frozenset[CallState]]) -> str:
    """Return the table as a Mermaid state diagram, for the documentation."""
    moves = [(str(old), str(new)) for old, news in table.items() for new in news]
    return "\n".join(["stateDiagram-v2", *(f"    {old} --> {new}" for old, new in sorted(moves))])

"""A delta as it is answered, printed and shown: made of what is stored, and of nothing else."""

from __future__ import annotations

from delta_actors.journal.store import CallRecord, Record
from delta_protocol.changes.cards import way_back
from delta_protocol.changes.holes import fill
from delta_protocol.changes.model import CallState, DeltaState, Plan, PlannedCall, Value
from delta_protocol.changes.plan import place
from delta_protocol.changes.states import MADE, PENDING
from delta_protocol.errors import Invalid
from delta_protocol.wire.journal import CallReport, DeltaReport
from delta_protocol.wire.message import Json


def report(record: Record, *, same_as: float | None = None) -> DeltaReport:
    """Return the report of a stored delta. `same_as`: seconds since it ran, when it answers a repeated program."""
    fixed = record.fixed
    planned = {call.number: call for call in fixed.plan.calls}
    states = [call.state for call in record.calls]
    return DeltaReport(
        id=record.id,
        state=record.state,
        calls=tuple(_call(planned[call.number], call) for call in record.calls),
        created=record.created,
        changed=record.changed,
        duration=record.duration,
        verified=states.count(CallState.VERIFIED),
        differs=states.count(CallState.DIFFERS),
        unverifiable=states.count(CallState.UNVERIFIABLE),
        undoable=_undoable(record, planned),
        undo_of=record.undo_of,
        undone_by=record.undone_by,
        reason=record.reason,
        conflicts=record.conflicts,
        card=fixed.card,
        returned=_returned(record),
        notes=fixed.notes,
        same_as=same_as,
        expires=record.expires if record.state in PENDING else None,
        code=fixed.code,
        call_count=len(record.calls),
    )


def _call(planned: PlannedCall, kept: CallRecord) -> CallReport:
    return CallReport(
        number=planned.number,
        connector=planned.connector,
        tool=planned.tool,
        words=planned.words,
        state=kept.state,
        reversibility=planned.reversibility,
        detail=kept.detail,
        undo=way_back(planned).removeprefix("undo: "),
        result=kept.result,
    )


def _undoable(record: Record, planned: dict[int, PlannedCall]) -> int:
    stands = {call.number for call in record.calls if call.state in MADE or record.state in PENDING}
    return sum(1 for number in stands if planned[number].inverse is not None)


def _returned(record: Record) -> Json | None:
    return filled(record.fixed.returned, record.fixed.plan, record)


def filled(value: Value, plan: Plan, record: Record) -> Json | None:
    """Return the program's value with results filled in; None while that is not possible."""
    if not value.holes:
        return value.json
    if record.state not in {DeltaState.APPLIED, DeltaState.UNDONE, DeltaState.PARTLY_UNDONE, DeltaState.UNDOING}:
        return None
    results = {call.number: call.result for call in record.calls if call.result is not None}
    try:
        return fill(place(value, plan), results)
    except Invalid:
        return None

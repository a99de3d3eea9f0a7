"""The plan in words, for the person who decides and for the answer (plan-apply-undo 5.16). Made from data alone."""

from __future__ import annotations

from collections.abc import Sequence

from delta_protocol.changes.model import Plan, PlannedCall, Reversibility


def render(delta: str, plan: Plan, *, undo_of: str | None = None) -> str:
    """Return the card."""
    names = ", ".join(dict.fromkeys(call.connector for call in plan.calls))
    what = f"Undo of {undo_of}" if undo_of else "Plan"
    count = f"{len(plan.calls)} call{'' if len(plan.calls) == 1 else 's'}"
    lines = [f"{what} {delta} · {count} on {names} · all-or-nothing: {reach(plan.calls)}"]
    lines += [f"{call.number} {call.connector}.{call.tool}  {call.words}  · {way_back(call)}" for call in plan.calls]
    lines += [f"Note: {note}" for note in plan.notes]
    return "\n".join(lines)


def reach(calls: Sequence[PlannedCall]) -> str:
    """Return how far "all or nothing" holds."""
    first = next((call for call in calls if call.reversibility is Reversibility.R3), None)
    if first is None:
        new = [str(call.number) for call in calls if call.reversibility is Reversibility.R2]
        return f"yes, but {', '.join(new)} would come back as new" if new else "yes"
    if first.number == len(calls):
        return f"until call {first.number}, the last, which cannot be undone"
    return f"up to call {first.number}, which cannot be undone"


def way_back(call: PlannedCall) -> str:
    """Return how the call is undone, or that it is not."""
    if call.inverse is None:
        return f"undo: NO, {call.irreversible_because or 'nothing takes it back'}"
    if call.reversibility is Reversibility.R1:
        return "undo: yes"
    return f"undo: {call.inverse.words}"

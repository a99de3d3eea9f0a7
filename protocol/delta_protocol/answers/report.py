"""A delta in words, made of the journal's report and nothing else (plan-apply-undo 5.16).

Never "atomic" or "transaction" (5.2); never a ✓ that a read did not show.
"""

from __future__ import annotations

from typing import Any

from delta_protocol.changes.model import CallState, DeltaState, FieldConflict
from delta_protocol.codecs import exact_json
from delta_protocol.shaping import readable, text_of
from delta_protocol.wire.journal import CallReport, DeltaReport

FAILED = frozenset(
    {
        DeltaState.REFUSED,
        DeltaState.FAILED,
        DeltaState.DECLINED,
        DeltaState.EXPIRED,
        DeltaState.ROLLED_BACK,
        DeltaState.PARTIAL,
        DeltaState.UNKNOWN,
        DeltaState.INTERRUPTED,
        DeltaState.PARTLY_UNDONE,
    }
)
"""States in which the task was not done: answered as errors."""

_MADE = frozenset({CallState.ACKED, CallState.VERIFIED, CallState.DIFFERS, CallState.UNVERIFIABLE})
_STAYED = frozenset({*_MADE, CallState.COMPENSATION_FAILED})


def outcome(report: DeltaReport) -> str:
    """Return what happened, most important first, in a few lines."""
    lines = [_head(report)]
    match report.state:
        case DeltaState.APPLIED | DeltaState.UNDONE | DeltaState.PARTLY_UNDONE:
            lines += _differences(report) + (_kept(report) if report.undo_of else [])
        case DeltaState.REFUSED if report.undo_of:
            lines += _kept(report)
        case DeltaState.REFUSED:
            lines += [_conflict(conflict) for conflict in report.conflicts]
            if report.conflicts:
                lines.append(f'Plan again on what is there now: delta_apply {{ delta: "{report.id}", onto: "now" }}')
        case DeltaState.PLANNED | DeltaState.WAITING:
            lines = [*([report.card] if report.card else []), *lines]
            if report.reason:
                lines.append(f"A person has to approve this: delta-supervisor approve {report.id}")
        case DeltaState.PARTIAL | DeltaState.INTERRUPTED:
            lines += [f"Still there: {_call(call)}" for call in report.calls if call.state in _STAYED]
            lines.append(_way_out(report))
        case DeltaState.UNKNOWN:
            lines += [f"Unknown: {_call(call)}" for call in report.calls if call.state is CallState.UNKNOWN]
            lines += [f"Made and kept: {_call(call)}" for call in report.calls if call.state in _STAYED]
            lines.append(_look(report))
        case DeltaState.APPLYING | DeltaState.ROLLING_BACK | DeltaState.UNDOING:
            lines.append(_look(report))
        case _:
            pass
    return "\n".join(lines)


def repeated(report: DeltaReport) -> str:
    """Return the heading of an answer that was given before (5.15)."""
    ago = f" ({_seconds(report.same_as)} ago)" if report.same_as is not None else ""
    return f"Same program as {report.id}{ago}; nothing was run. Pass again: true to run it again. The first answer:"


def facts(report: DeltaReport) -> dict[str, Any]:
    """Return the same for programs: the `delta` of structured content."""
    return {
        "id": report.id,
        "state": str(report.state),
        "calls": report.call_count or len(report.calls),
        "read_back": {
            "verified": report.verified,
            "differs": report.differs,
            "unverifiable": report.unverifiable,
        },
        "undo": {"possible": report.undoable, "of": report.call_count or len(report.calls)},
    }


def whole(report: DeltaReport) -> str:
    """Return everything about a delta: state, plan, calls, what can be undone, program (`delta:<id>`)."""
    lines = [outcome(report)]
    if report.undo_of:
        lines.append(f"Undoes {report.undo_of}")
    if report.undone_by:
        lines.append(f"Undone by {report.undone_by}")
    if report.state not in (DeltaState.PLANNED, DeltaState.WAITING) and report.card:
        lines.append(report.card)
    if any(call.state is not CallState.PLANNED for call in report.calls):
        lines += [_full_call(call) for call in report.calls]
    lines += [f"Note: {note}" for note in report.notes if f"Note: {note}" not in report.card]
    if report.returned not in (None, b"null"):
        lines.append(f"Returned: {text_of(readable(exact_json.decode(report.returned)))}")
    if report.code:
        lines.append(f"Program:\n{report.code}")
    return "\n".join(lines)


def one_line(report: DeltaReport, now: float) -> str:
    """Return a delta as a line of the journal; `now` is seconds since the epoch."""
    words = [report.id, _state(report), f"{_seconds(max(0.0, now - report.created))} ago"]
    if report.undo_of:
        words.append(f"undoes {report.undo_of}")
    if report.undone_by:
        words.append(f"undone by {report.undone_by}")
    first = next((line.strip() for line in report.code.splitlines() if line.strip()), "")
    if first:
        words.append(first if len(first) <= 80 else f"{first[:79]}…")
    return " · ".join(words)


def _state(report: DeltaReport) -> str:
    return "program failed" if report.state is DeltaState.FAILED else str(report.state).replace("_", " ")


def _head(report: DeltaReport) -> str:
    name = report.id if report.undo_of is None else f"{report.id} (undoes {report.undo_of})"
    reason = [report.reason] if report.reason else []
    match report.state:
        case DeltaState.APPLIED if report.undo_of:
            how = "Partly undone" if report.conflicts else "Undone"
            return _joined(f"{how} {report.undo_of} by {report.id}", *_figures(report))
        case DeltaState.APPLIED:
            return _joined(f"Applied {name}", *_figures(report))
        case DeltaState.PLANNED:
            return _joined(f"Planned {name}", "nothing is changed yet", _make_it(report))
        case DeltaState.WAITING:
            return _joined(f"Waiting {name}", *(reason or ["nothing is changed yet"]), _make_it(report))
        case DeltaState.ROLLED_BACK:
            return _joined(f"Rolled back {name}", *_first_error(report), *_taken_back(report), "nothing remains")
        case DeltaState.PARTIAL:
            return _joined(f"PARTIAL {name}", *_first_error(report), *_taken_back(report))
        case DeltaState.UNKNOWN:
            return _joined(f"UNKNOWN {name}", *_first_error(report), *_taken_back(report))
        case DeltaState.INTERRUPTED:
            return _joined(f"Interrupted {name}", *_first_error(report), "a person or you must choose")
        case DeltaState.FAILED:
            return _joined(f"Program failed {name}", "nothing was changed", *reason)
        case DeltaState.REFUSED | DeltaState.DECLINED | DeltaState.EXPIRED:
            state = [] if report.state is DeltaState.REFUSED or reason else [str(report.state)]
            return _joined(f"Nothing changed {name}", *state, *reason)
        case DeltaState.APPLYING | DeltaState.ROLLING_BACK | DeltaState.UNDOING:
            made = sum(call.state in _MADE for call in report.calls)
            doing = str(report.state).replace("_", " ")
            return _joined(f"Still {doing} {name}", f"{made} of {_calls(len(report.calls))} made", *reason)
        case DeltaState.UNDONE | DeltaState.PARTLY_UNDONE:
            by = [f"by {report.undone_by}"] if report.undone_by else []
            return _joined(f"{'Undone' if report.state is DeltaState.UNDONE else 'Partly undone'} {name}", *by, *reason)


def _figures(report: DeltaReport) -> list[str]:
    figures = [_calls(len(report.calls)), _seconds(report.duration)]
    if report.differs or report.unverifiable:
        counted = [
            f"{count} {word}"
            for count, word in (
                (report.verified, "✓"),
                (report.differs, "stored differently"),
                (report.unverifiable, "could not be read back"),
            )
            if count
        ]
        figures.append(f"read back: {', '.join(counted)}")
    elif report.calls:
        all_seen = report.verified >= len(report.calls)
        figures.append("read back ✓" if all_seen else f"read back: {report.verified} of {len(report.calls)}")
    if report.undoable < len(report.calls):
        figures.append(f"undo: {report.undoable} of {len(report.calls)}" if report.undoable else "cannot be undone")
    return figures


def _differences(report: DeltaReport) -> list[str]:
    doubtful = (CallState.DIFFERS, CallState.UNVERIFIABLE)
    return [_call(call) for call in report.calls if call.state in doubtful and call.detail]


def _first_error(report: DeltaReport) -> list[str]:
    failed = next((call for call in report.calls if call.state in (CallState.FAILED, CallState.UNKNOWN)), None)
    if failed is None:
        return [report.reason] if report.reason else []
    why = failed.detail or report.reason or "failed"
    return [f"call {failed.number} {failed.connector}.{failed.tool}: {why}"]


def _taken_back(report: DeltaReport) -> list[str]:
    back = [call.number for call in report.calls if call.state is CallState.COMPENSATED]
    stuck = [call for call in report.calls if call.state is CallState.COMPENSATION_FAILED]
    said = [f"{_numbered(back)} taken back"] if back else []
    return said + [f"call {call.number} could NOT be taken back: {call.detail or 'no reason given'}" for call in stuck]


def _conflict(conflict: FieldConflict) -> str:
    wanted = "" if conflict.wanted == b"null" else f", wanted {_value(conflict.wanted)}"
    return f"{_where(conflict)} is {_value(conflict.now)} now, planned from {_value(conflict.was)}{wanted}"


def kept_fields(report: DeltaReport) -> list[str]:
    """Return what an undo left alone because somebody changed it since, as `force` takes it: `T-1.status`."""
    return [_where(conflict) for conflict in report.conflicts] if report.undo_of else []


def _kept(report: DeltaReport) -> list[str]:
    if not report.conflicts:
        return []
    lines = [f"Kept: {_conflict(conflict)}" for conflict in report.conflicts]
    forced = ", ".join(f'"{field}"' for field in kept_fields(report))
    return [*lines, f'Put back all the same: delta_apply {{ undo: "{report.undo_of}", force: [{forced}] }}']


def _where(conflict: FieldConflict) -> str:
    return f"{conflict.entity}.{conflict.field}" if conflict.field else conflict.entity


def _way_out(report: DeltaReport) -> str:
    if report.state is DeltaState.INTERRUPTED:
        return f'Choose: delta_apply {{ delta: "{report.id}", resolve: "finish" }} or resolve: "roll_back"'
    return f'By hand, or try again: delta_apply {{ undo: "{report.id}" }}'


def _look(report: DeltaReport) -> str:
    return f'Look later: delta_read {{ refs: ["delta:{report.id}"] }}'


def _make_it(report: DeltaReport) -> str:
    return f'then: delta_apply {{ delta: "{report.id}" }}'


def _call(call: CallReport) -> str:
    detail = f" · {call.detail}" if call.detail else ""
    return f"call {call.number} {call.connector}.{call.tool}: {call.words}{detail}"


def _full_call(call: CallReport) -> str:
    undo = f" · undo: {call.undo}" if call.undo else ""
    return f"{_call(call)} · {str(call.state).replace('_', ' ')}{undo}"


def _numbered(numbers: list[int]) -> str:
    return f"call{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _value(text: bytes) -> str:
    shown = exact_json.encode(readable(exact_json.decode(text))).decode()
    return shown if len(shown) <= 200 else f"{shown[:199]}…"


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _seconds(duration: float) -> str:
    if duration < 1:
        return f"{duration * 1000:.0f} ms"
    if duration < 120:
        return f"{duration:.1f} s" if duration < 10 else f"{duration:.0f} s"
    return f"{duration / 60:.0f} min" if duration < 7200 else f"{duration / 3600:.0f} h"

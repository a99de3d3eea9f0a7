"""Taking back what was made, in reverse order: each inverse logged, checked for others' changes, and read back.

Source: plan-apply-undo 5.10, Failure; acceptance 84, 85.
"""

from __future__ import annotations

from typing import Any

from delta_protocol.changes.holes import dig
from delta_protocol.changes.images import NOTHING, UNKNOWN, Image, field_of, is_known
from delta_protocol.changes.model import CallState, DeltaState, PlannedCall
from delta_protocol.changes.normalise import same
from delta_protocol.changes.readback import count, countable
from delta_protocol.changes.states import MADE
from delta_protocol.changes.steps import CallChange, Pause, Progress, Reply, Save, Send, Steps, look, save_call
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import Invalid
from delta_protocol.wire.registry import Outcome

RETRIES = (0.2, 1.0)
_OPEN = MADE | {CallState.COMPENSATING}


def roll_back(progress: Progress, reason: str, *, already: bool = False) -> Steps[DeltaState]:
    """Take back every made call. Returns `rolled_back`, or `partial` where something stays.

    `already`: the delta is in `rolling_back` (found so after a crash).
    """
    if not already:
        progress.reason = reason
        yield Save(DeltaState.ROLLING_BACK, reason=reason)
    for call in reversed(progress.plan.calls):
        if progress.states[call.number] in _OPEN:
            yield from _take_back(progress, call)
    stays = bool(progress.made()) or CallState.COMPENSATION_FAILED in progress.states.values()
    final = DeltaState.PARTIAL if stays else DeltaState.ROLLED_BACK
    yield Save(final)
    return final


def _take_back(progress: Progress, call: PlannedCall) -> Steps[bool]:
    resumed = progress.states[call.number] is CallState.COMPENSATING
    if call.inverse is None:
        return False
    now = yield from _now(progress, call)
    state = taken_back(progress, call, now)
    if state is True and (resumed or call.operation != "call"):
        return (yield from _ended(progress, call, CallState.COMPENSATED, resumed=resumed))
    why = _foreign(progress, call, now)
    if resumed and call.operation in {"delete", "remove"}:
        why = "it was being put back when we stopped; sending that again could make it twice"
    try:
        arguments = exact_json.encode(progress.filled(call.inverse.arguments))
    except Invalid as error:
        why = error.message
        arguments = b"{}"
    if why:
        return (yield from _ended(progress, call, CallState.COMPENSATION_FAILED, why, resumed=resumed))
    if not resumed:
        yield from save_call(progress, call.number, CallChange(CallState.COMPENSATING))
    reply: Reply = yield Send(call.number, call.connector, call.inverse.tool, arguments, back=True)
    return (yield from _check(progress, call, reply, was_there=is_known(now)))


def _ended(
    progress: Progress, call: PlannedCall, state: CallState, detail: str = "", *, resumed: bool = True
) -> Steps[bool]:
    if not resumed:
        yield from save_call(progress, call.number, CallChange(CallState.COMPENSATING))
    yield from save_call(progress, call.number, CallChange(state, detail or None))
    return state is CallState.COMPENSATED


def _check(progress: Progress, call: PlannedCall, reply: Reply, *, was_there: bool) -> Steps[bool]:
    """Believe a read, where one can be made; the connector's answer only where none can."""
    restored = None
    for delay in (0.0, *RETRIES):
        if delay:
            yield Pause(delay)
        restored = taken_back(progress, call, (yield from _now(progress, call, was_there=was_there)))
        if restored is not False or reply.outcome in {Outcome.REFUSED, Outcome.NOT_SENT}:
            break
    if restored is None:
        restored = reply.outcome is Outcome.OK
    if restored:
        return (yield from _ended(progress, call, CallState.COMPENSATED))
    assert call.inverse is not None
    said = reply.message or ("it answered, but nothing changed" if reply.outcome is Outcome.OK else reply.outcome)
    detail = f"{call.inverse.tool}: {said}"
    return (yield from _ended(progress, call, CallState.COMPENSATION_FAILED, detail))


def _now(progress: Progress, call: PlannedCall, *, was_there: bool = False) -> Steps[Any]:
    if call.read_back is None:
        return UNKNOWN
    there = was_there or progress.was_there(call)
    return (yield from look(progress, call.connector, call.read_back, was_there=there))


def taken_back(progress: Progress, call: PlannedCall, now: Image) -> bool | None:
    """Return whether the image shows the entity as before the call; None where it cannot tell."""
    if now is UNKNOWN or call.read_back is None:
        return None
    before = progress.image_before(call)
    read = call.read_back
    if read.absent:
        # Made again it may have a new key, under which this reader does not look.
        return True if now is not NOTHING else None
    if call.operation == "create" and not read.contains:
        return now is NOTHING
    try:
        expected = progress.expected(read)
    except Invalid:
        return None
    if not all(countable(now, name) for name, _ in (*expected.contains, *expected.lacks)):
        return None
    if expected.contains and not expected.expect and call.operation in {"add", "create"}:
        return all(count(now, name, item) <= count(before, name, item) for name, item in expected.contains)
    if expected.lacks:
        return all(_put_back(before, now, name, item) for name, item in expected.lacks)
    if not is_known(before) or now is NOTHING:
        return None
    return all(_alike(before, now, name) for name in call.fields)


def _put_back(before: Image, now: Image, name: str, item: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether a removed element is there again, under whatever key: an element is known by its other fields."""
    had, array = field_of(before, name) if is_known(before) else (False, None)
    gone = [each for each in array if same(item, each)] if had and is_array(array) else []
    if is_object(item) and gone and is_object(gone[0]):
        content = {key: value for key, value in gone[0].items() if key not in item}
        return count(now, name, content) >= count(before, name, content)
    return count(now, name, item) >= max(1, count(before, name, item))


def _alike(before: Image, now: Image, name: str) -> bool:
    had, was = field_of(before, name)
    has, value = field_of(now, name)
    return (same(was, value) and same(value, was)) if had and has else was is None and value is None


def _foreign(progress: Progress, call: PlannedCall, now: Image) -> str:
    """Return what somebody else made of what we wrote, or an empty text."""
    if call.operation != "update" or call.read_back is None or not is_known(now):
        return ""
    before = progress.image_before(call)
    try:
        wanted = progress.expected(call.read_back).expect
    except Invalid:
        return ""
    for name, value in wanted.items():
        has, current = field_of(now, name)
        ours = has and same(value, current)
        if not ours and not _alike(before, now, name) and not _later(progress, call, name, current):
            return f"{name or 'content'} was changed since by someone else"
    return ""


def _later(progress: Progress, call: PlannedCall, name: str, current: Any) -> bool:  # noqa: ANN401 - any JSON value
    # A later call of ours that could not be taken back has left its own value there.
    for other in progress.plan.calls[call.number :]:
        if other.entity == call.entity and other.read_back is not None:
            found, value = dig(progress.filled(other.read_back.expect), (name,))
            if found and same(value, current):
                return True
    return False

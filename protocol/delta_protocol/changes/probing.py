"""Whether a call was made whose answer is missing: found out with reads alone, never by sending it again.

Source: plan-apply-undo 5.10, "sent, no answer".
"""

from __future__ import annotations

from typing import Any

from delta_protocol.changes.holes import dig
from delta_protocol.changes.images import UNKNOWN, Image, field_of
from delta_protocol.changes.model import CallState, PlannedCall, ResultRef
from delta_protocol.changes.normalise import same
from delta_protocol.changes.readback import Made, was_made
from delta_protocol.changes.steps import CallChange, Pause, Progress, Steps, look, save_call
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array
from delta_protocol.errors import Invalid

RETRIES = (0.2, 1.0, 3.0)
"""Seconds before reading again, for connectors that show a change late."""


def probe(progress: Progress, call: PlannedCall) -> Steps[tuple[Made, Image]]:
    """Read once; return whether the call was made, and what was seen."""
    if call.probe is None:
        return Made.UNSURE, UNKNOWN
    image = yield from look(progress, call.connector, call.probe, was_there=progress.was_there(call))
    if image is UNKNOWN:
        return Made.UNSURE, UNKNOWN
    try:
        expected = progress.expected(call.probe)
    except Invalid:
        return Made.UNSURE, UNKNOWN
    return was_made(expected, image, progress.image_before(call)), image


def settle(progress: Progress, call: PlannedCall, why: str, *, resend: bool = False) -> Steps[Made]:
    """Find out, reading several times, whether a call without an answer was made, and store it.

    `resend`: not made leaves it to be sent again.
    """
    made, image = Made.UNSURE, UNKNOWN
    for delay in (0.0, *RETRIES):
        if delay:
            yield Pause(delay)
        made, image = yield from probe(progress, call)
        if made is Made.YES or call.probe is None:
            break
    if made is Made.UNSURE:
        change = CallChange(CallState.UNKNOWN, f"{why}; reading could not tell whether it was made")
        yield from save_call(progress, call.number, change)
    elif made is Made.YES or not resend:
        yield from save_call(progress, call.number, _found_out(progress, call, made, image, why))
    return made


def settle_late(progress: Progress, call: PlannedCall) -> Steps[None]:
    """Read once more about a call that ended unknown; store only what is certain now."""
    made, image = yield from probe(progress, call)
    if made is not Made.UNSURE:
        why = "its answer was lost; looked again later"
        yield from save_call(progress, call.number, _found_out(progress, call, made, image, why))


def _found_out(progress: Progress, call: PlannedCall, made: Made, image: Image, why: str) -> CallChange:
    if made is Made.YES:
        return acked_by_probe(progress, call, image, f"{why}; reading showed that it was made")
    return CallChange(CallState.FAILED, f"{why}; reading showed that it was not made")


def acked_by_probe(progress: Progress, call: PlannedCall, image: Image, detail: str) -> CallChange:
    """Return what is to be stored of a call that a read showed to be made."""
    result = _found_result(progress, call, image)
    return CallChange(CallState.ACKED, detail, None if result is None else exact_json.encode(result))


def _found_result(progress: Progress, call: PlannedCall, image: Image) -> Any:  # noqa: ANN401 - any JSON value
    """Return as much of the lost result as the call's inverse needs, from what the probe saw.

    None where the made element cannot be told from others.
    """
    if call.inverse is None or call.probe is None or not call.probe.contains:
        return None
    paths = [
        part.path
        for hole in call.inverse.arguments.holes
        for part in hole.parts
        if isinstance(part, ResultRef) and part.write == call.number
    ]
    if len(paths) != 1 or len(call.probe.contains) != 1:
        return None
    name, value = call.probe.contains[0]
    had, now = field_of(image, name)
    had_before, before = field_of(progress.image_before(call), name)
    earlier = before if had_before and is_array(before) else []
    wanted = progress.filled(value)
    new = [item for item in now if same(wanted, item) and item not in earlier] if had and is_array(now) else []
    key = paths[0][-1:]
    if len(new) != 1 or not dig(new[0], key)[0]:
        return None
    result: Any = new[0]
    for step in reversed(paths[0][:-1]):
        result = [result] if isinstance(step, int) else {step: result}
    return result

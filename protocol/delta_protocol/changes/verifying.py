"""Reading back what was made: one read per entity, each call judged by it (plan-apply-undo 5.12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delta_protocol.changes.images import UNKNOWN, Image, is_known
from delta_protocol.changes.model import CallState, PlannedCall
from delta_protocol.changes.readback import Expected, Verdict, judge
from delta_protocol.changes.steps import CallChange, Progress, Steps, look
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json


@dataclass(frozen=True, slots=True)
class Seen:
    """What a read showed of one call. `missing`: what it made is not there, or what it deleted still is."""

    state: CallState
    detail: str = ""
    after: Json | None = None
    missing: bool = False

    @property
    def settled(self) -> bool:
        """Whether reading again would tell no more."""
        return self.state in {CallState.VERIFIED, CallState.UNVERIFIABLE}


def read_round(progress: Progress, known: Mapping[int, Seen]) -> Steps[dict[int, Seen]]:
    """Read every entity once whose calls are not all verified yet; return what is known of each call that stands."""
    wanted, images = progress.left_to_show(), dict[tuple[str, str, Json], Any]()
    out = dict(known)
    for call in progress.made():
        expected, read = wanted[call.number], call.read_back
        if expected is None or read is None:
            out[call.number] = Seen(CallState.UNVERIFIABLE, "nothing reads it back")
            continue
        if call.number in out and out[call.number].state is CallState.VERIFIED:
            continue
        try:
            place = (call.connector, read.tool, exact_json.encode([progress.filled(read.arguments), *read.path]))
            expectations = progress.filled_expectations(expected)
        except Invalid as error:
            out[call.number] = Seen(CallState.UNVERIFIABLE, error.message)
            continue
        if place not in images:
            images[place] = yield from look(progress, call.connector, read, was_there=progress.was_there(call))
        out[call.number] = _verdict(progress, call, expectations, images[place])
    return out


def _verdict(progress: Progress, call: PlannedCall, expected: Expected, now: Image) -> Seen:
    if now is UNKNOWN:
        return Seen(CallState.UNVERIFIABLE, "it could not be read back")
    verdict, detail = judge(expected, now, progress.image_before(call))
    after = exact_json.encode(now) if is_known(now) else b"null"
    state = CallState.VERIFIED if verdict is Verdict.VERIFIED else CallState.DIFFERS
    return Seen(state, detail, after, verdict is Verdict.NOT_THERE)


def changes_of(seen: Mapping[int, Seen]) -> dict[int, CallChange]:
    """Return what is to be stored of the calls."""
    return {number: CallChange(each.state, each.detail or None, after=each.after) for number, each in seen.items()}


def first_missing(progress: Progress, seen: Mapping[int, Seen]) -> str:
    """Return what the first call lacks that answered without doing its work, or an empty text."""
    number = next((number for number, each in seen.items() if each.missing), None)
    if number is None:
        return ""
    call = progress.call(number)
    return f"call {number}: {call.connector}.{call.tool} answered, but {seen[number].detail}"

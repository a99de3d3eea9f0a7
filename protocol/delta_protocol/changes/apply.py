"""One delta applied, as a state machine without I/O: checks, calls, read-back, and what follows from every way to fail.

    machine = Apply(plan, check)
    steps = machine.run()
    step = next(steps)                       # Save, Send, Look or Pause
    step = steps.send(answer)                # ... until StopIteration, whose value is the final state

Invariants: no `Send` before every precondition was read; every `Send` follows a durable `Save` of its intent; a write
whose answer was lost is probed, never assumed; nothing is called verified without a read. Source: plan-apply-undo 5.9
to 5.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from delta_protocol.changes.compensate import roll_back
from delta_protocol.changes.conflicts import conflicts, entity_label, wanted_by
from delta_protocol.changes.holes import dig
from delta_protocol.changes.images import UNKNOWN, entity_name, field_of, is_known
from delta_protocol.changes.model import Plan, PlannedCall, ReadBack, ResultRef, Reversibility, Value
from delta_protocol.changes.normalise import same
from delta_protocol.changes.readback import Expected, Made, Verdict, judge, was_made
from delta_protocol.changes.states import MAYBE_SENT
from delta_protocol.changes.steps import (
    CallChange,
    Check,
    Pause,
    Progress,
    Reply,
    Save,
    Send,
    Steps,
    look,
    save_call,
)
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array
from delta_protocol.errors import Invalid
from delta_protocol.wire.journal import CallState, DeltaState, FieldConflict
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome

RETRIES = (0.2, 1.0, 3.0)
"""Seconds before reading again, for connectors that show a change late."""
FINISH_FORWARD = 3
"""Turned back past a call that cannot be undone, so many remaining calls are still made."""
RATE_LIMIT_TRIES = 5


class Apply:
    """The machine. `turn_back()` may be called between steps; `states` and `results` come from storage after a
    crash.
    """

    def __init__(
        self,
        plan: Plan,
        check: Check,
        *,
        states: Mapping[int, CallState] | None = None,
        results: Mapping[int, Any] | None = None,
    ) -> None:
        self.progress = Progress(plan, check, dict(states or {}), dict(results or {}))

    def turn_back(self, reason: str) -> None:
        """Stop making calls: the one in flight is finished, then what was made is taken back, or finished past a call
        that cannot be."""
        self.progress.turn_back = True
        self.progress.reason = self.progress.reason or reason

    def run(self) -> Steps[DeltaState]:
        """Apply from the start."""
        refused = yield from self._check_world()
        if refused is not None:
            return refused
        return (yield from self._forward())

    def resume(self, state: DeltaState) -> Steps[DeltaState]:
        """Go on after a crash: probe what may have been sent, then roll back, finish reading back, or stop for a
        person.
        """
        progress = self.progress
        for call in progress.plan.calls:
            if progress.states[call.number] in MAYBE_SENT:
                yield from self._settle(call, "we stopped before its answer was stored")
        if any(kept is CallState.UNKNOWN for kept in progress.states.values()):
            yield Save(DeltaState.UNKNOWN, reason="it is not known whether a call was made")
            return DeltaState.UNKNOWN
        if state is DeltaState.ROLLING_BACK:
            return (yield from roll_back(progress, "", already=True))
        made = progress.made()
        if not made and all(kept is CallState.PLANNED for kept in progress.states.values()):
            yield Save(DeltaState.PLANNED, reason="")
            return DeltaState.PLANNED
        if len(made) == len(progress.plan.calls):
            return (yield from self._read_back())
        if progress.past_return():
            yield Save(DeltaState.INTERRUPTED, reason="stopped after a call that cannot be undone")
            return DeltaState.INTERRUPTED
        return (yield from roll_back(progress, "we were stopped in the middle"))

    def finish(self) -> Steps[DeltaState]:
        """Make the remaining calls of an interrupted delta."""
        yield Save(DeltaState.APPLYING)
        return (yield from self._forward())

    def give_up(self) -> Steps[DeltaState]:
        """Take back what can be taken back of an interrupted delta."""
        return (yield from roll_back(self.progress, "a person chose to roll back"))

    def _check_world(self) -> Steps[DeltaState | None]:
        progress = self.progress
        found: list[FieldConflict] = []
        for precondition in progress.plan.preconditions:
            read = ReadBack(precondition.tool, Value(precondition.arguments), precondition.path)
            now = yield from look(progress, precondition.entity.connector, read)
            if now is UNKNOWN:
                reason = f"{entity_label(precondition.entity)} could not be read again: nothing was made"
                yield Save(DeltaState.REFUSED, reason=reason)
                return DeltaState.REFUSED
            wanted = wanted_by(progress.plan.calls, precondition.entity)
            found += conflicts(precondition, now, wanted)
            progress.before[entity_name(precondition.entity)] = now
        if found:
            reason = "changed since it was read: " + ", ".join(
                f"{conflict.entity}.{conflict.field}" if conflict.field else conflict.entity for conflict in found
            )
            yield Save(DeltaState.REFUSED, reason=reason, conflicts=tuple(found))
            return DeltaState.REFUSED
        if progress.turn_back:
            yield Save(DeltaState.PLANNED)
            return DeltaState.PLANNED
        return None

    def _forward(self) -> Steps[DeltaState]:
        progress = self.progress
        for call in progress.plan.calls:
            if progress.states[call.number] is not CallState.PLANNED:
                continue
            stopped = yield from self._maybe_turn_back(call)
            if stopped is not None:
                return stopped
            failure = yield from self._make(call)
            if progress.states[call.number] is CallState.UNKNOWN:
                yield Save(DeltaState.UNKNOWN, reason=failure)
                return DeltaState.UNKNOWN
            if failure:
                return (yield from roll_back(progress, failure))
        return (yield from self._read_back())

    def _maybe_turn_back(self, call: PlannedCall) -> Steps[DeltaState | None]:
        progress = self.progress
        if not progress.turn_back:
            return None
        if not progress.past_return():
            return (yield from roll_back(progress, progress.reason))
        if len(progress.plan.calls) - call.number + 1 <= FINISH_FORWARD:
            return None
        yield Save(DeltaState.PARTIAL, reason=progress.reason)
        return DeltaState.PARTIAL

    def _make(self, call: PlannedCall) -> Steps[str]:
        """Make one call. Returns why it failed, or an empty text."""
        progress, again = self.progress, call.reversibility is Reversibility.R1
        try:
            arguments = progress.check(call, exact_json.encode(progress.filled(call.arguments)))
        except Invalid as error:
            return f"call {call.number}: {call.connector}.{call.tool}: {error.message}"
        reply = Reply(Outcome.NOT_SENT)
        for attempt in range(RATE_LIMIT_TRIES):
            yield from save_call(progress, call.number, CallChange(CallState.INTENT))
            reply = cast("Reply", (yield Send(call.number, call.connector, call.tool, arguments)))
            if reply.outcome is Outcome.OK:
                result = reply.result or b"null"
                yield from save_call(progress, call.number, CallChange(CallState.ACKED, result=result))
                return ""
            if reply.outcome is Outcome.NO_REPLY:
                yield from save_call(progress, call.number, CallChange(CallState.SENT))
                made = yield from self._settle(call, reply.message or "no answer", resend=again)
                if made is Made.NO and again:
                    again = False
                    continue
                return "" if made is Made.YES else self._failed(call, reply)
            waits = reply.outcome in {Outcome.REFUSED, Outcome.NOT_SENT} and reply.retry_after is not None
            if waits and attempt + 1 < RATE_LIMIT_TRIES:
                yield from save_call(progress, call.number, CallChange(CallState.PLANNED))
                if not progress.turn_back and (yield Pause(reply.retry_after or 0.0, to_send=True)):
                    continue
                return self._failed(call, reply)
            break
        yield from self._definite(call, reply)
        return self._failed(call, reply)

    def _definite(self, call: PlannedCall, reply: Reply) -> Steps[None]:
        """The tool reported an error: one read tells whether it changed something all the same."""
        if reply.outcome is Outcome.TOOL_ERROR and call.probe is not None:
            made, image = yield from self._probe(call)
            if made is Made.YES:
                change = self._acked_by_probe(call, image, f"it reported an error, yet it was made: {reply.message}")
                yield from save_call(self.progress, call.number, change)
                return
        yield from save_call(self.progress, call.number, CallChange(CallState.FAILED, reply.message))

    @staticmethod
    def _failed(call: PlannedCall, reply: Reply) -> str:
        return f"call {call.number} failed: {call.connector}.{call.tool}: {reply.message or reply.outcome}"

    def _settle(self, call: PlannedCall, why: str, *, resend: bool = False) -> Steps[Made]:
        """Find out whether a call without an answer was made, and store it. `resend`: not made leaves it to be sent
        again.
        """
        made, image = Made.UNSURE, UNKNOWN
        for delay in (0.0, *RETRIES):
            if delay:
                yield Pause(delay)
            made, image = yield from self._probe(call)
            if made is Made.YES or call.probe is None:
                break
        if made is Made.YES:
            change = self._acked_by_probe(call, image, f"{why}; reading showed that it was made")
        elif made is Made.NO:
            change = CallChange(CallState.FAILED, f"{why}; reading showed that it was not made")
        else:
            change = CallChange(CallState.UNKNOWN, f"{why}; reading could not tell whether it was made")
        if not (made is Made.NO and resend):
            yield from save_call(self.progress, call.number, change)
        return made

    def _probe(self, call: PlannedCall) -> Steps[tuple[Made, Any]]:
        if call.probe is None:
            return Made.UNSURE, UNKNOWN
        image = yield from look(self.progress, call.connector, call.probe)
        if image is UNKNOWN:
            return Made.UNSURE, UNKNOWN
        try:
            expected = self.progress.expected(call.probe)
        except Invalid:
            return Made.UNSURE, UNKNOWN
        return was_made(expected, image, self.progress.image_before(call)), image

    def _acked_by_probe(self, call: PlannedCall, image: Any, detail: str) -> CallChange:  # noqa: ANN401 - an image
        result = found_result(call, image, self.progress)
        return CallChange(CallState.ACKED, detail, None if result is None else exact_json.encode(result))

    def _read_back(self) -> Steps[DeltaState]:
        progress = self.progress
        wanted = progress.left_to_show()
        verdicts: dict[int, tuple[CallState, str, Json | None]] = {}
        for delay in (0.0, *RETRIES):
            if delay:
                yield Pause(delay)
            verdicts = yield from self._read_round(wanted, verdicts)
            if all(state in {CallState.VERIFIED, CallState.UNVERIFIABLE} for state, _, _ in verdicts.values()):
                break
        missing = [number for number, (state, _, _) in verdicts.items() if state is CallState.FAILED]
        changes = {
            number: CallChange(CallState.DIFFERS if state is CallState.FAILED else state, detail or None, after=after)
            for number, (state, detail, after) in verdicts.items()
        }
        progress.states |= {number: change.state for number, change in changes.items()}
        if missing:
            yield Save(calls=changes)
            call, detail = progress.call(missing[0]), verdicts[missing[0]][1]
            reason = f"call {call.number}: {call.connector}.{call.tool} answered, but {detail}"
            return (yield from roll_back(progress, reason))
        yield Save(DeltaState.APPLIED, changes)
        return DeltaState.APPLIED

    def _read_round(
        self, wanted: Mapping[int, Expected | None], known: Mapping[int, tuple[CallState, str, Json | None]]
    ) -> Steps[dict[int, tuple[CallState, str, Json | None]]]:
        """Read every entity once whose calls are not all verified yet. `FAILED` stands for "not there"."""
        progress, images = self.progress, dict[tuple[str, str, Json], Any]()
        out = dict(known)
        for call in progress.made():
            expected, read = wanted[call.number], call.read_back
            if expected is None or read is None:
                out[call.number] = (CallState.UNVERIFIABLE, "nothing reads it back", None)
                continue
            if call.number in out and out[call.number][0] is CallState.VERIFIED:
                continue
            try:
                place = (call.connector, read.tool, exact_json.encode([progress.filled(read.arguments), *read.path]))
                expectations = progress.filled_expectations(expected)
            except Invalid as error:
                out[call.number] = (CallState.UNVERIFIABLE, error.message, None)
                continue
            if place not in images:
                images[place] = yield from look(progress, call.connector, read)
            out[call.number] = self._verdict(call, expectations, images[place])
        return out

    def _verdict(self, call: PlannedCall, expected: Expected, now: Any) -> tuple[CallState, str, Json | None]:  # noqa: ANN401
        if now is UNKNOWN:
            return CallState.UNVERIFIABLE, "it could not be read back", None
        verdict, detail = judge(expected, now, self.progress.image_before(call))
        after = exact_json.encode(now) if is_known(now) else b"null"
        if verdict is Verdict.NOT_THERE:
            return CallState.FAILED, detail, after
        state = CallState.VERIFIED if verdict is Verdict.VERIFIED else CallState.DIFFERS
        return state, detail, after


def found_result(call: PlannedCall, image: Any, progress: Progress) -> Any:  # noqa: ANN401 - any JSON value
    """Return, for a call whose answer was lost, as much of its result as its inverse needs, from what the probe saw.

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

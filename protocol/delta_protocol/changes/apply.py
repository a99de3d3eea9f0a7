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
from delta_protocol.changes.images import UNKNOWN, entity_name, is_known
from delta_protocol.changes.model import (
    CallState,
    DeltaState,
    FieldConflict,
    Plan,
    PlannedCall,
    ReadBack,
    Reversibility,
    Value,
)
from delta_protocol.changes.probing import RETRIES, acked_by_probe, probe, settle, settle_late
from delta_protocol.changes.readback import Made
from delta_protocol.changes.states import MAYBE_SENT
from delta_protocol.changes.steps import CallChange, Check, Pause, Progress, Reply, Save, Send, Steps, look, save_call
from delta_protocol.changes.verifying import Seen, changes_of, first_missing, read_round
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.wire.registry import Outcome

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

    def turn_back(self, reason: str, *, unwanted: bool) -> None:
        """Stop making calls: the one in flight is finished, then what was made is taken back, or finished past a call
        that cannot be.

        `unwanted`: the client does not want the change any more, so that it is taken back even when every call was
        made; else (its time is over) such a change stands.
        """
        self.progress.turn_back = True
        self.progress.unwanted |= unwanted
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
                yield from settle(progress, call, "we stopped before its answer was stored")
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

    def look_again(self) -> Steps[DeltaState]:
        """Find out later, with reads alone, what became of the calls of an `unknown` delta. Nothing is stored that is
        not certain, and nothing is taken back.
        """
        progress = self.progress
        for call in progress.plan.calls:
            if progress.states[call.number] is CallState.UNKNOWN and call.probe is not None:
                yield from settle_late(progress, call)
        if CallState.UNKNOWN in progress.states.values():
            return DeltaState.UNKNOWN
        if len(progress.made()) == len(progress.plan.calls):
            seen = yield from read_round(progress, {})
            missing = first_missing(progress, seen)
            state = DeltaState.PARTIAL if missing else DeltaState.APPLIED
            yield from self._save_seen(state, seen, missing)
            return state
        stays = bool(progress.made()) or CallState.COMPENSATION_FAILED in progress.states.values()
        state = DeltaState.PARTIAL if stays else DeltaState.ROLLED_BACK
        yield Save(state)
        return state

    def _check_world(self) -> Steps[DeltaState | None]:
        progress = self.progress
        found: list[FieldConflict] = []
        for precondition in progress.plan.preconditions:
            read = ReadBack(precondition.tool, Value(precondition.arguments), precondition.path)
            was_there = is_known(progress.before[entity_name(precondition.entity)])
            now = yield from look(progress, precondition.entity.connector, read, was_there=was_there)
            if now is UNKNOWN:
                why = f" ({precondition.entity.connector}: {progress.unread})" if progress.unread else ""
                reason = f"{entity_label(precondition.entity)} could not be read again{why}: nothing was made"
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

    def _is_unwanted(self) -> bool:
        """Return whether calls that were all made are to be taken back: only while every one of them can be."""
        return self.progress.unwanted and not self.progress.past_return()

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
                made = yield from settle(progress, call, reply.message or "no answer", resend=again)
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
            made, image = yield from probe(self.progress, call)
            if made is Made.YES:
                detail = f"it reported an error, yet it was made: {reply.message}"
                change = acked_by_probe(self.progress, call, image, detail)
                yield from save_call(self.progress, call.number, change)
                return
        yield from save_call(self.progress, call.number, CallChange(CallState.FAILED, reply.message))

    @staticmethod
    def _failed(call: PlannedCall, reply: Reply) -> str:
        return f"call {call.number} failed: {call.connector}.{call.tool}: {reply.message or reply.outcome}"

    def _read_back(self) -> Steps[DeltaState]:
        progress, seen = self.progress, dict[int, Seen]()
        for delay in (0.0, *RETRIES):
            if delay:
                yield Pause(delay)
            if self._is_unwanted():
                return (yield from roll_back(progress, progress.reason))
            seen = yield from read_round(progress, seen)
            if all(each.settled for each in seen.values()):
                break
        if self._is_unwanted():
            return (yield from roll_back(progress, progress.reason))
        missing = first_missing(progress, seen)
        yield from self._save_seen(None if missing else DeltaState.APPLIED, seen)
        return (yield from roll_back(progress, missing)) if missing else DeltaState.APPLIED

    def _save_seen(self, state: DeltaState | None, seen: Mapping[int, Seen], reason: str | None = None) -> Steps[None]:
        changes = changes_of(seen)
        self.progress.states |= {number: change.state for number, change in changes.items()}
        yield Save(state, changes, reason)

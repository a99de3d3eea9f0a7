"""One delta being applied: drives the machine of `delta_protocol.changes.apply` with disk, connectors and time.

The task belongs to the journal, not to the call that started it. At the client's deadline no further call is begun;
what was sent is settled for at most `settle` seconds more; then the task ends and says what is not known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
import trio

from delta_actors.journal.connectors import Connectors
from delta_actors.journal.locks import Locks, locks_of
from delta_actors.journal.store import Move, Record, Store
from delta_protocol.changes.apply import Apply
from delta_protocol.changes.model import CallState, DeltaState
from delta_protocol.changes.redaction import Redactor
from delta_protocol.changes.states import MAYBE_SENT
from delta_protocol.changes.steps import CallChange, Look, Pause, Reply, Save, Send, Step, Steps
from delta_protocol.wire.registry import Outcome

_STANDS = {
    DeltaState.APPLIED: DeltaState.UNDONE,
    DeltaState.PARTIAL: DeltaState.PARTLY_UNDONE,
    DeltaState.UNKNOWN: DeltaState.PARTLY_UNDONE,
}
"""What becomes of a delta when its undo ends so; otherwise what stood before stands again."""


class Undone(msgspec.Struct, frozen=True):
    """The delta that is being undone. `former`: its state before; `whole`: whether nothing of it is left out; `now`:
    the state that it waits in for the undo's end."""

    id: str
    former: DeltaState
    whole: bool
    now: DeltaState = DeltaState.UNDOING


class Applying:
    """The running apply of one delta."""

    def __init__(
        self,
        record: Record,
        machine: Apply,
        *,
        store: Store,
        locks: Locks,
        connectors: Connectors,
        redactor: Redactor,
        pins: Mapping[int, str],
        deadline: float,
        settle: float,
        undone: Undone | None = None,
        patient: bool = False,
    ) -> None:
        """`deadline` on trio's clock. `patient`: after a restart, connectors may still have to come up."""
        self.id = record.id
        self.finished = trio.Event()
        self.machine = machine
        self._state = record.state
        self._stage = record.stage
        self._store = store
        self._locks = locks
        self._connectors = connectors
        self._redactor = redactor
        self._pins = pins
        self._deadline = deadline
        self._hard = deadline + settle
        self._undone = undone
        self._patient = patient
        self._began = trio.current_time() - record.duration
        self._turned = trio.Event()

    def turn_back(self, reason: str, *, unwanted: bool) -> None:
        """Begin no further call; see `Apply.turn_back`."""
        self.machine.turn_back(reason, unwanted=unwanted)
        self._turned.set()

    async def run(self, steps: Steps[DeltaState]) -> None:
        """Drive `steps` to their end. Always ends with the delta in a state that says what is known, unless cancelled
        from outside (the actor stops): then recovery goes on from what is stored."""
        try:
            with trio.CancelScope(deadline=self._hard) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_deadline)
                    async with self._locks.hold(locks_of(self.machine.progress.plan)):
                        await self._drive(steps)
                    nursery.cancel_scope.cancel()
            if scope.cancelled_caught:
                await self._give_up()
        finally:
            self.finished.set()

    async def _watch_deadline(self) -> None:
        await trio.sleep_until(self._deadline)
        self.turn_back("the deadline passed", unwanted=False)

    async def _drive(self, steps: Steps[DeltaState]) -> None:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = await self._do(step)

    async def _do(self, step: Step) -> Any:  # noqa: ANN401 - None, a Reply or a bool
        match step:
            case Save():
                await self._save(step)
                return None
            case Send():
                return await self._connectors.send(step, self.id, self._stage, self._pin(step))
            case Look():
                return await self._look(step)
            case Pause():
                return await self._pause(step)

    def _pin(self, step: Send) -> str:
        return self._pins.get(-step.number if step.back else step.number, "")

    async def _look(self, step: Look) -> Reply:
        reply = await self._connectors.look(step)
        while self._patient and reply.outcome in {Outcome.NOT_SENT, Outcome.NO_REPLY}:
            if trio.current_time() + 2 > self._hard:
                break
            await trio.sleep(1)
            reply = await self._connectors.look(step)
        return reply

    async def _pause(self, step: Pause) -> bool:
        if trio.current_time() + step.seconds > (self._deadline if step.to_send else self._hard):
            return False
        if not step.to_send:
            await trio.sleep(step.seconds)
            return True
        with trio.move_on_after(step.seconds):
            await self._turned.wait()
            return False
        return True

    async def _save(self, step: Save) -> None:
        calls = {number: self._clean(change) for number, change in step.calls.items()}
        move = Move(
            at=time.time(),
            expect=frozenset({self._state}),
            to=step.state,
            calls=calls,
            reason=None if step.reason is None else self._redactor.text(step.reason),
            conflicts=step.conflicts or None,
            duration=trio.current_time() - self._began,
            lease="" if step.state is not None and step.state not in _MOVING else None,
        )
        await self._store.move(self.id, move, also=self._of_undone(step.state))
        self._state = step.state or self._state

    def _of_undone(self, state: DeltaState | None) -> dict[str, Move]:
        undone = self._undone
        if undone is None or state is None or state in _MOVING:
            return {}
        to = _STANDS.get(state, undone.former)
        if to is DeltaState.UNDONE and not undone.whole:
            to = DeltaState.PARTLY_UNDONE
        by = self.id if state in _STANDS else ""
        return {undone.id: Move(time.time(), frozenset({undone.now}), to, undone_by=by)}

    def _clean(self, change: CallChange) -> CallChange:
        redactor = self._redactor
        return CallChange(
            change.state,
            None if change.detail is None else redactor.text(change.detail),
            None if change.result is None else redactor.json(change.result),
            None if change.after is None else redactor.json(change.after),
        )

    async def _give_up(self) -> None:
        """Time is over: store what is known and what is not."""
        progress = self.machine.progress
        open_ = [number for number, state in progress.states.items() if state in MAYBE_SENT]
        if open_:
            calls = {number: CallChange(CallState.UNKNOWN, "no answer in time") for number in open_}
            names = ", ".join(f"call {number}" for number in open_)
            await self._save(Save(DeltaState.UNKNOWN, calls, reason=f"{names}: no answer in time"))
        elif self._state is DeltaState.ROLLING_BACK:
            late = [number for number, state in progress.states.items() if state is CallState.COMPENSATING]
            calls = {n: CallChange(CallState.COMPENSATION_FAILED, "no answer in time") for n in late}
            await self._save(Save(DeltaState.PARTIAL, calls))
        elif self._state is DeltaState.APPLYING and not progress.made():
            await self._save(Save(DeltaState.PLANNED))
        elif self._state is DeltaState.APPLYING and len(progress.made()) == len(progress.plan.calls):
            late = [number for number, state in progress.states.items() if state is CallState.ACKED]
            calls = {n: CallChange(CallState.UNVERIFIABLE, "not read back in time") for n in late}
            await self._save(Save(DeltaState.APPLIED, calls))
        elif self._state is DeltaState.APPLYING:
            await self._save(Save(DeltaState.PARTIAL, reason=progress.reason or "no time was left"))


_MOVING = frozenset({DeltaState.APPLYING, DeltaState.ROLLING_BACK})

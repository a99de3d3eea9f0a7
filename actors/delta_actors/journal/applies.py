"""Every apply that is running: how it begins, who waits for it, and how it is taken up after a crash."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from delta_actors.journal.applying import Applying, Undone
from delta_actors.journal.catalogues import Catalogues
from delta_actors.journal.connectors import Connectors
from delta_actors.journal.lease import own_lease, owner_lives
from delta_actors.journal.locks import Locks
from delta_actors.journal.proposals import changed_tools, pins_of
from delta_actors.journal.records import machine_of, nothing_left_out, stored_pins
from delta_actors.journal.store import Move, Record, Store
from delta_actors.runtime.actor import Call, Context
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes import modes
from delta_protocol.changes.apply import Apply
from delta_protocol.changes.model import CallState, DeltaState, Plan
from delta_protocol.changes.redaction import Redactor, secrets_of
from delta_protocol.changes.states import MADE, MOVING, PENDING, UNDOABLE
from delta_protocol.changes.steps import Steps
from delta_protocol.codecs import exact_json
from delta_protocol.errors import DeltaError, Refused
from delta_protocol.wire.message import Answer, Item, Origin, Principal, Progress, Question, Role

log = logging.getLogger("delta.journal")

ANSWER_EARLY = 0.25
"""Seconds before the caller's deadline at which it is told how far things are."""
LOOK_AGAIN = 30.0
"""Seconds after which a delta that ended unknown, and was not looked at since, is looked at again."""
LOOK_TIME = 20.0
"""Seconds that looking again may take, besides what settling may."""
LOOKED_KEPT = 1000
OLD_UNKNOWNS = 20
"""Deltas that are looked at again at the start, the newest."""


class Applies:
    """The running applies of one journal, each a task in the actor's nursery."""

    def __init__(self, store: Store, context: Context, catalogues: Catalogues) -> None:
        self._store = store
        self._catalogues = catalogues
        self._context = context
        self._limits = context.config.limits
        self._locks = Locks()
        self._running: dict[str, _Watched] = {}
        self._plans: dict[str, Plan] = {}
        self._looked: dict[str, float] = {}
        self._lease = own_lease()

    def statistics(self) -> dict[str, object]:
        """Return how many deltas are being applied, and their locks."""
        return {"applying": len(self._running), "locks": self._locks.statistics()}

    def is_running(self, delta: str) -> bool:
        """Return whether the delta is being applied here."""
        return delta in self._running

    def connectors(self, principal: Principal, origin: Origin | None) -> Connectors:
        """Return connectors for reads outside of any apply: a connector's question finds nobody."""
        return Connectors(self._context.ref(Role.REGISTRY), principal, origin, None)

    def remember(self, delta: str, plan: Plan) -> None:
        """Keep a plan with secrets, which is stored without them. The oldest make room."""
        self._plans[delta] = plan
        while len(self._plans) > self._limits.journal_deltas:
            del self._plans[next(iter(self._plans))]

    def forget(self, delta: str) -> None:
        """Drop a remembered plan."""
        self._plans.pop(delta, None)

    def withdraw(self, delta: str, reason: str) -> bool:
        """Have a running apply declined if it ends without having made anything. Returns whether there is one."""
        watched = self._running.get(delta)
        if watched is None:
            return False
        watched.withdrawn = reason
        return True

    async def begin(self, record: Record, call: Call) -> Record | None:
        """Begin applying a pending delta. Returns its record if it is refused on the way, None once it runs.

        Raises `Refused` when somebody else moved it first.
        """
        plan = self._plans.get(record.id) or (None if record.fixed.redacted else record.fixed.plan)
        if plan is None:
            raise Refused(f"{record.id} holds secrets that were not kept over a restart: run the program again")
        watched = _Watched(call)
        connectors = self._watched_connectors(call.principal, call.origin, watched)
        catalogue = await self._catalogues.newest()
        refusal = self._refusal(record, plan, catalogue)
        if refusal:
            return await self._store.move(record.id, Move(time.time(), PENDING, DeltaState.REFUSED, reason=refusal))
        undone = await self._to_undo(record)
        record = await self._to_applying(record, undone)
        machine = machine_of(record, catalogue, plan)
        self._start(record, machine, machine.run(), watched, connectors, catalogue, call.deadline, undone)
        return None

    def _refusal(self, record: Record, plan: Plan, catalogue: Catalogue) -> str:
        changed = changed_tools(plan, stored_pins(record.fixed), pins_of(plan, catalogue))
        if changed:
            return f"{', '.join(changed)} changed since the plan was made: plan again"
        decision = modes.decide(plan, catalogue, self._context.config.mode, self._limits)
        if decision.verdict is modes.Verdict.REFUSE:
            return f"refused: {decision.why}"
        unasked = decision.verdict is modes.Verdict.ASK and not record.approved_by
        return f"{decision.why} now needs a person's approval: plan again" if unasked else ""

    async def _to_undo(self, record: Record) -> Undone | None:
        if record.undo_of is None:
            return None
        original = await self._store.get(record.undo_of)
        if original is None or original.state not in UNDOABLE:
            state = "gone" if original is None else original.state
            raise Refused(f"{record.undo_of} is {state}: there is nothing to undo")
        return Undone(original.id, original.state, nothing_left_out(record, original))

    async def _to_applying(self, record: Record, undone: Undone | None) -> Record:
        now = time.time()
        move = Move(now, PENDING, DeltaState.APPLYING, lease=self._lease, reason="")
        also = {} if undone is None else {undone.id: Move(now, UNDOABLE, DeltaState.UNDOING, undone_by=record.id)}
        try:
            return await self._store.move(record.id, move, also=also)
        except Refused as error:
            raise Refused(f"{record.id} is being applied or undone already ({error.message})") from None

    def _start(
        self,
        record: Record,
        machine: Apply,
        steps: Steps[DeltaState],
        watched: _Watched,
        connectors: Connectors,
        catalogue: Catalogue,
        deadline: float,
        undone: Undone | None,
        *,
        patient: bool = False,
    ) -> None:
        plan = machine.progress.plan
        if math.isinf(deadline):
            deadline = trio.current_time() + self._limits.request_deadline
        watched.applying = applying = Applying(
            record,
            machine,
            store=self._store,
            locks=self._locks,
            connectors=connectors,
            redactor=Redactor(secrets_of(plan)),
            pins=pins_of(plan, catalogue),
            deadline=deadline,
            settle=self._limits.settle,
            undone=undone,
            patient=patient,
        )
        self._running[record.id] = watched
        self._context.nursery.start_soon(self._run, applying, steps, watched)

    async def _run(self, applying: Applying, steps: Steps[DeltaState], watched: _Watched) -> None:
        try:
            await applying.run(steps)
            if watched.withdrawn:
                await self.decline_withdrawn(applying.id, watched.withdrawn)
        except Refused as error:
            log.warning("applying %s broke off: %s", applying.id, error.message)
        except Exception:
            # What is stored still tells the truth; recovery at the next start goes on from it.
            log.exception("applying %s broke off", applying.id)
        finally:
            self._running.pop(applying.id, None)
            self._plans.pop(applying.id, None)

    async def decline_withdrawn(self, delta: str, reason: str) -> None:
        """Decline a delta that its client no longer wants, unless it is past that."""
        with contextlib.suppress(Refused):
            move = Move(time.time(), PENDING, DeltaState.DECLINED, reason=reason, note="withdrawn by its client")
            await self._store.move(delta, move)

    async def wait(self, delta: str, call: Call) -> None:
        """Wait for the end of a running apply, or for the caller's deadline. An explicit cancel turns it back."""
        watched = self._running.get(delta)
        applying = watched.applying if watched is not None else None
        if watched is None or applying is None:
            return
        watched.call = call
        try:
            with trio.move_on_at(call.deadline - ANSWER_EARLY):
                await applying.finished.wait()
        except trio.Cancelled:
            if call.cancelled:
                applying.turn_back("the client cancelled", unwanted=True)
            raise
        finally:
            if watched.call is call:
                watched.call = None

    def _watched_connectors(self, principal: Principal, origin: Origin | None, watched: _Watched) -> Connectors:
        return Connectors(self._context.ref(Role.REGISTRY), principal, origin, watched.listen)

    async def settle(self, record: Record, resolve: str, call: Call) -> None:
        """Begin finishing (`finish`) or rolling back an interrupted delta."""
        watched = _Watched(call)
        connectors = self._watched_connectors(Principal(record.principal, "system"), call.origin, watched)
        catalogue = await self._catalogues.newest()
        machine = machine_of(record, catalogue)
        steps = machine.finish() if resolve == "finish" else machine.give_up()
        undone = await self._undoing(record)
        self._start(record, machine, steps, watched, connectors, catalogue, call.deadline, undone)

    async def recover(self) -> None:
        """Take up every delta that was being applied or rolled back when its journal ended, then look again at those
        that ended unknown.
        """
        for delta in await self._store.in_states(MOVING):
            await self._take_up(delta, self._resume)
        for delta in (await self._store.in_states({DeltaState.UNKNOWN}))[-OLD_UNKNOWNS:]:
            await self._take_up(delta, partial(self.look_again, patient=True))

    async def _take_up(self, delta: str, work: Callable[[Record], Awaitable[object]]) -> None:
        record = await self._store.get(delta)
        if record is None or delta in self._running:
            return
        if record.lease not in {"", self._lease} and owner_lives(record.lease):
            log.warning("%s is being applied by another journal (%s)", delta, record.lease)
            return
        try:
            with trio.fail_after(self._limits.request_deadline):
                await work(record)
        except (DeltaError, trio.TooSlowError) as error:
            log.warning("%s could not be taken up: %s", delta, error)

    async def look_again(self, record: Record, *, patient: bool = False) -> bool:
        """Begin reading once more what became of a delta that ended unknown; return whether that was due.

        Makes no write. Soon after the end it is not due: a slow connector may still make the call. `patient`: the
        connectors may still have to come up.
        """
        now = trio.current_time()
        if record.id in self._running or not _can_be_looked_at(record):
            return False
        if time.time() < record.changed + LOOK_AGAIN or now < self._looked.get(record.id, -math.inf) + LOOK_AGAIN:
            return False
        self._looked[record.id] = now
        while len(self._looked) > LOOKED_KEPT:
            del self._looked[next(iter(self._looked))]
        watched = _Watched(None)
        connectors = self._watched_connectors(Principal(record.principal, "system"), None, watched)
        catalogue = await self._catalogues.newest()
        machine, undone = machine_of(record, catalogue), await self._partly_undone(record)
        if record.id in self._running:
            return True
        steps = machine.look_again()
        self._start(record, machine, steps, watched, connectors, catalogue, now + LOOK_TIME, undone, patient=patient)
        return True

    async def _partly_undone(self, record: Record) -> Undone | None:
        """Return the delta of which this undo, itself ended unknown, has taken back a part or all."""
        original = await self._store.get(record.undo_of) if record.undo_of is not None else None
        state = DeltaState.PARTLY_UNDONE
        if original is None or original.state is not state or original.undone_by != record.id:
            return None
        return Undone(original.id, state, nothing_left_out(record, original), now=state)

    async def _resume(self, record: Record) -> None:
        watched = _Watched(None)
        connectors = self._watched_connectors(Principal(record.principal, "system"), None, watched)
        catalogue = await self._catalogues.newest()
        record = await self._store.move(record.id, Move(time.time(), MOVING, lease=self._lease))
        machine = machine_of(record, catalogue)
        deadline = trio.current_time() + self._limits.request_deadline
        steps, undone = machine.resume(record.state), await self._undoing(record)
        self._start(record, machine, steps, watched, connectors, catalogue, deadline, undone, patient=True)

    async def _undoing(self, record: Record) -> Undone | None:
        original = await self._store.get(record.undo_of) if record.undo_of is not None else None
        if original is None or original.state is not DeltaState.UNDOING:
            return None
        partly = any(call.state not in MADE for call in original.calls)
        former = DeltaState.PARTIAL if partly else DeltaState.APPLIED
        return Undone(original.id, former, nothing_left_out(record, original))


def _can_be_looked_at(record: Record) -> bool:
    """Return whether a read may tell what is unknown."""
    planned = record.fixed.plan.calls
    return record.state is DeltaState.UNKNOWN and any(
        call.state is CallState.UNKNOWN and planned[call.number - 1].probe is not None for call in record.calls
    )


class _Watched:
    """An apply and the call that waits for it, through which a connector's question reaches the client."""

    def __init__(self, call: Call | None) -> None:
        self.call = call
        self.applying: Applying | None = None
        self.withdrawn = ""
        """Why its client no longer wants it."""

    async def listen(self, item: Item) -> Item | None:
        """Pass progress and questions to the waiting call; without one, answer that the client is gone."""
        call = self.call
        if isinstance(item, Question):
            if call is None or call.caller_lost.is_set():
                return Answer(error=exact_json.encode({"code": -32603, "message": "the client is gone"}))
            return await call.question(item)
        if isinstance(item, Progress) and call is not None and not call.caller_lost.is_set():
            await call.emit(item)
        return None

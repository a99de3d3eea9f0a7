"""What the journal does with each request: begin, take in plans, decide, apply, undo, and take up what a crash left."""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec
import trio

from delta_actors.journal.applying import Applying, Undone
from delta_actors.journal.connectors import Connectors
from delta_actors.journal.lease import own_lease, owner_lives
from delta_actors.journal.locks import Locks
from delta_actors.journal.planning import Planning, Program, fingerprint, new_id
from delta_actors.journal.proposals import changed_tools, checker, pins_of, read_image, taken_in
from delta_actors.journal.reports import report
from delta_actors.journal.store import CallRecord, Fixed, Move, Record, Store
from delta_actors.runtime.actor import Call, Context
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes import modes
from delta_protocol.changes.apply import Apply
from delta_protocol.changes.cards import render
from delta_protocol.changes.images import UNKNOWN, Image
from delta_protocol.changes.model import Plan, Value
from delta_protocol.changes.redaction import Redactor, redacted_plan, secrets_of
from delta_protocol.changes.states import MADE, MOVING, PENDING, UNDOABLE
from delta_protocol.changes.steps import Progress, Steps
from delta_protocol.changes.undo import build_undo, reads_needed
from delta_protocol.codecs import exact_json
from delta_protocol.errors import DeltaError, Invalid, NotFound, Refused
from delta_protocol.wire.journal import (
    Abandon,
    Approve,
    Begin,
    Begun,
    CallState,
    Decline,
    DeltaPage,
    DeltaReport,
    DeltaState,
    ListDeltas,
    Propose,
    Settle,
    Undo,
)
from delta_protocol.wire.message import Answer, Item, Origin, Principal, Progress as ProgressItem, Question, Role

log = logging.getLogger("delta.journal")

ANSWER_EARLY = 0.25
"""Seconds before the caller's deadline at which it is told how far things are."""
DAY = 86_400.0


class Desk:
    """One per journal."""

    def __init__(self, store: Store, context: Context) -> None:
        self._store = store
        self._context = context
        self._limits = context.config.limits
        self._planning = Planning()
        self._locks = Locks()
        self._running: dict[str, _Watched] = {}
        self._plans: dict[str, Plan] = {}
        self._beginning = trio.Lock()
        self._lease = own_lease()

    def statistics(self) -> dict[str, Any]:
        """Return how many programs, applies and locks there are."""
        return {"planning": len(self._planning), "applying": len(self._running), "locks": self._locks.statistics()}

    # ---- beginning and planning

    async def begin(self, request: Begin, call: Call) -> Begun:
        """Give the program an id, or the report of the same program that ran a moment ago."""
        if not request.again:
            repeated = await self._repeated(request, call)
            if repeated is not None:
                return Begun(repeated.id, repeated)
        return Begun(self._planning.begin(request, call.principal, time.time()).id)

    async def _repeated(self, request: Begin, call: Call) -> DeltaReport | None:
        key = fingerprint(request, call.principal)
        running = self._planning.running(key)
        if running is not None:
            with trio.move_on_at(call.deadline - ANSWER_EARLY):
                await running.ended.wait()
        found = await self._store.find_repeat(key, time.time() - self._limits.repeat_window)
        if found is None:
            return None
        if found.id in self._running:
            await self._wait(self._running[found.id], call)
        record = await self._store.get(found.id) or found
        return report(record, same_as=max(0.0, time.time() - record.created))

    async def abandon(self, request: Abandon, call: Call) -> DeltaReport:
        """End a program without a plan. One that changed nothing leaves nothing behind; a failed one is kept."""
        program = self._planning.get(request.delta, call.principal)
        returned = Value(request.returned) if request.returned is not None else Value(b"null")
        now = time.time()
        state = DeltaState.REFUSED if request.reason else DeltaState.APPLIED
        fixed = _fixed(program.begin, Plan(program.begin.catalogue, ()), returned, Redactor())
        record = Record(
            id=program.id,
            state=state,
            principal=program.principal.id,
            conversation=program.begin.conversation,
            fingerprint=program.fingerprint,
            created=program.created,
            changed=now,
            fixed=fixed,
            reason=request.reason,
        )
        if request.reason:
            await self._store.insert(record)
        self._planning.end(program.id)
        return report(record)

    async def propose(self, request: Propose, call: Call) -> DeltaReport:
        """Take in a plan, decide by mode, and store it."""
        program = self._planning.get(request.delta, call.principal)
        try:
            return report(await self._taken(request, program, call))
        finally:
            self._planning.end(program.id)

    async def _taken(self, request: Propose, program: Program, call: Call) -> Record:
        connectors = self._connectors(call.principal, call.origin)
        catalogue = await connectors.catalogue(request.plan.catalogue)
        plan = await taken_in(request.plan, catalogue, connectors, self._limits)
        return await self._stored(
            program.begin,
            plan,
            catalogue,
            delta=program.id,
            principal=program.principal.id,
            created=program.created,
            returned=request.returned,
            proposal=request,
        )

    async def _stored(
        self,
        begin: Begin,
        plan: Plan,
        catalogue: Catalogue,
        *,
        delta: str,
        principal: str,
        created: float,
        returned: Value = Value(b"null"),
        proposal: Propose | None = None,
        undo_of: str | None = None,
        by_person: bool = False,
        **more: Any,
    ) -> Record:
        decision = modes.decide(plan, catalogue, self._context.config.mode, self._limits)
        asks = decision.verdict is modes.Verdict.ASK and not by_person
        dry = proposal is not None and proposal.dry_run
        state = DeltaState.WAITING if asks or dry else DeltaState.PLANNED
        reason = f"waits for approval: {decision.why}" if asks else ""
        if decision.verdict is modes.Verdict.REFUSE:
            state, reason = DeltaState.REFUSED, f"refused: {decision.why}"
        secrets = secrets_of(plan)
        redactor = Redactor(secrets)
        notes = (*plan.notes, *(proposal.notes if proposal is not None else ()))
        fixed = _fixed(begin, plan, returned, redactor)
        fixed = msgspec.structs.replace(
            fixed,
            reads=tuple(
                msgspec.structs.replace(
                    read, arguments=redactor.json(read.arguments), result=redactor.json(read.result)
                )
                for read in (proposal.reads if proposal is not None else ())
            ),
            notes=tuple(redactor.text(note) for note in notes),
            card=redactor.text(render(delta, plan, waiting=decision.why if asks else "", undo_of=undo_of)),
            pins=_pins_kept(plan, catalogue),
        )
        if secrets and state in PENDING:
            self._remember(delta, plan)
        now = time.time()
        record = Record(
            id=delta,
            state=state,
            principal=principal,
            conversation=begin.conversation,
            fingerprint=fingerprint(begin, Principal(principal, "")) if undo_of is None else "",
            created=created,
            changed=now,
            fixed=fixed,
            calls=tuple(CallRecord(call.number, reversibility=call.reversibility) for call in plan.calls),
            expires=now + self._limits.approval_expiry,
            reason=reason,
            needs_person=asks,
            undo_of=undo_of,
            **more,
        )
        await self._store.insert(record)
        return record

    def _remember(self, delta: str, plan: Plan) -> None:
        # Plans with secrets live in memory only; the oldest make room.
        self._plans[delta] = plan
        while len(self._plans) > self._limits.journal_deltas:
            del self._plans[next(iter(self._plans))]

    # ---- reading and deciding

    async def load(self, delta: str, call: Call) -> Record:
        """Return a delta that this call's principal may see. Raises `NotFound` with ids near it."""
        own = None if call.caller == Role.OPERATOR else call.principal.id
        record = await self._store.get(delta)
        if record is None or (own is not None and record.principal != own):
            near = list(await self._store.ids_like(delta, own))
            hint = f"; there is {', '.join(near)}" if near else ""
            raise NotFound(f"there is no delta {delta}{hint}", delta=delta, nearest=near)
        if record.state in PENDING and record.expires is not None and record.expires < time.time():
            record = await self._expire(record.id) or record
        return record

    async def report(self, delta: str, call: Call) -> DeltaReport:
        """Return a delta's report."""
        return report(await self.load(delta, call))

    async def page(self, request: ListDeltas, call: Call) -> DeltaPage:
        """Return reports, newest first, without calls."""
        own = None if call.caller == Role.OPERATOR else call.principal.id
        limit = max(1, min(request.limit, 200))
        records = await self._store.page(own, request.before, limit + 1)
        return DeltaPage(tuple(report(record) for record in records[:limit]), len(records) > limit)

    async def approve(self, request: Approve, call: Call) -> DeltaReport:
        """Record a person's yes: one use, for this plan only."""
        record = await self.load(request.delta, call)
        move = Move(
            time.time(),
            frozenset({DeltaState.WAITING}),
            DeltaState.PLANNED,
            reason="",
            approved_by=request.channel,
            note=f"approved over {request.channel} by {call.principal.id}",
        )
        try:
            return report(await self._store.move(record.id, move))
        except Refused:
            raise Refused(await self._already(record.id, "approved"), delta=record.id) from None

    async def decline(self, request: Decline, call: Call) -> DeltaReport:
        """Record a person's no."""
        record = await self.load(request.delta, call)
        reason = f"declined: {request.reason}" if request.reason else "declined"
        move = Move(time.time(), PENDING, DeltaState.DECLINED, reason=reason, note=f"over {request.channel}")
        try:
            declined = await self._store.move(record.id, move)
        except Refused:
            raise Refused(await self._already(record.id, "declined"), delta=record.id) from None
        self._plans.pop(record.id, None)
        return report(declined)

    async def _already(self, delta: str, what: str) -> str:
        record = await self._store.get(delta)
        if record is None:
            return f"{delta} is gone"
        at = time.strftime("%H:%M:%S", time.localtime(record.approved_at or record.changed))
        how = f"already approved over {record.approved_by} at {at}" if record.approved_by else f"changed at {at}"
        return f"{delta} cannot be {what}: it is {record.state} ({how})"

    async def _expire(self, delta: str) -> Record | None:
        self._plans.pop(delta, None)
        try:
            move = Move(time.time(), PENDING, DeltaState.EXPIRED, reason="nobody decided in time")
            return await self._store.move(delta, move)
        except Refused:
            return await self._store.get(delta)

    async def sweep(self) -> None:
        """Let what is over expire, and drop what is too old."""
        for delta in await self._store.expired(time.time()):
            await self._expire(delta)
        await self._store.prune(time.time() - self._limits.journal_days * DAY, self._limits.journal_deltas)

    # ---- applying

    async def apply(self, delta: str, call: Call) -> DeltaReport:
        """Apply a delta that may be applied; answer at the end, or at the caller's deadline with how far it is."""
        async with self._beginning:
            record = await self.load(delta, call)
            if delta not in self._running:
                if record.state not in PENDING:
                    return _ended(record)
                if record.state is DeltaState.WAITING and record.needs_person:
                    how = f"delta-supervisor approve {delta}"
                    raise Refused(f"{delta} {record.reason}: {how}", delta=delta, state="waiting")
                begun = await self._begin_apply(record, call)
                if begun is not None:
                    return begun
            watched = self._running[delta]
        await self._wait(watched, call)
        return await self.report(delta, call)

    async def _begin_apply(self, record: Record, call: Call) -> DeltaReport | None:
        plan = self._plans.get(record.id) or (None if record.fixed.redacted else record.fixed.plan)
        if plan is None:
            raise Refused(f"{record.id} holds secrets that were not kept over a restart: run the program again")
        watched = _Watched(call)
        connectors = self._connectors(call.principal, call.origin, watched)
        catalogue = await connectors.catalogue()
        refusal = self._refusal(record, plan, catalogue)
        if refusal:
            move = Move(time.time(), PENDING, DeltaState.REFUSED, reason=refusal)
            return report(await self._store.move(record.id, move))
        former = await self._undone_by(record)
        record = await self._to_applying(record, former)
        machine = Apply(plan, checker(catalogue))
        self._start(record, machine, machine.run(), watched, connectors, plan, catalogue, call.deadline, former)
        return None

    def _refusal(self, record: Record, plan: Plan, catalogue: Catalogue) -> str:
        changed = changed_tools(plan, _pins(record.fixed), pins_of(plan, catalogue))
        if changed:
            return f"{', '.join(changed)} changed since the plan was made: plan again"
        decision = modes.decide(plan, catalogue, self._context.config.mode, self._limits)
        if decision.verdict is modes.Verdict.REFUSE:
            return f"refused: {decision.why}"
        unasked = decision.verdict is modes.Verdict.ASK and not record.approved_by
        return f"{decision.why} now needs a person's approval: plan again" if unasked else ""

    async def _undone_by(self, record: Record) -> Undone | None:
        if record.undo_of is None:
            return None
        original = await self._store.get(record.undo_of)
        if original is None or original.state not in UNDOABLE:
            state = "gone" if original is None else original.state
            raise Refused(f"{record.undo_of} is {state}: there is nothing to undo")
        return Undone(original.id, original.state, _whole(record, original))

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
        plan: Plan,
        catalogue: Catalogue,
        deadline: float,
        undone: Undone | None,
        *,
        patient: bool = False,
    ) -> None:
        most = trio.current_time() + self._limits.request_deadline
        watched.applying = Applying(
            record,
            machine,
            store=self._store,
            locks=self._locks,
            connectors=connectors,
            redactor=Redactor(secrets_of(plan)),
            pins=pins_of(plan, catalogue),
            deadline=min(deadline, most) if deadline == float("inf") else deadline,
            settle=self._limits.settle,
            undone=undone,
            patient=patient,
        )
        self._running[record.id] = watched
        self._context.nursery.start_soon(self._run, watched.applying, steps)

    async def _run(self, applying: Applying, steps: Steps[DeltaState]) -> None:
        try:
            await applying.run(steps)
        except Exception:
            # What is stored still tells the truth; recovery at the next start goes on from it.
            log.exception("applying %s broke off", applying.id)
        finally:
            self._running.pop(applying.id, None)
            self._plans.pop(applying.id, None)

    async def _wait(self, watched: _Watched, call: Call) -> None:
        watched.call = call
        applying = watched.applying
        assert applying is not None
        try:
            with trio.move_on_at(call.deadline - ANSWER_EARLY):
                await applying.finished.wait()
        except trio.Cancelled:
            if call.cancelled:
                applying.turn_back("the client cancelled")
            raise
        finally:
            if watched.call is call:
                watched.call = None

    def _connectors(self, principal: Principal, origin: Origin | None, watched: _Watched | None = None) -> Connectors:
        listener = None if watched is None else watched.listen
        return Connectors(self._context.ref(Role.REGISTRY), principal, origin, listener)

    # ---- undoing

    async def undo(self, request: Undo, call: Call) -> DeltaReport:
        """Plan the undo as a delta of its own, and apply it if the mode lets it."""
        record = await self.load(request.delta, call)
        if record.state not in UNDOABLE:
            raise Refused(f"{record.id} is {record.state}: there is nothing to undo", state=str(record.state))
        connectors = self._connectors(call.principal, call.origin)
        catalogue = await connectors.catalogue()
        progress = progress_of(record)
        if not progress.made():
            raise Refused(f"nothing that {record.id} made stands: there is nothing to undo")
        now = await self._images_now(progress, connectors, record)
        undo = build_undo(progress, catalogue, _after(record), now, request.force)
        begin = Begin(record.conversation, "", "", catalogue.number, 0, 0)
        if not undo.plan.calls and not undo.kept:
            raise Refused(f"nothing of {record.id} can be undone: " + ("; ".join(undo.stays) or "it is as before"))
        stored = await self._stored(
            begin,
            undo.plan,
            catalogue,
            delta=new_id(),
            principal=record.principal,
            created=time.time(),
            undo_of=record.id,
            by_person=call.caller == Role.OPERATOR,
            conflicts=undo.kept,
        )
        if not undo.plan.calls:
            reason = "changed since by someone else: " + ", ".join(
                f"{kept.entity}.{kept.field}" if kept.field else kept.entity for kept in undo.kept
            )
            move = Move(time.time(), PENDING, DeltaState.REFUSED, reason=reason)
            return report(await self._store.move(stored.id, move))
        if call.caller == Role.OPERATOR and stored.state is DeltaState.PLANNED:
            approval = Move(time.time(), PENDING, approved_by="operator", note="typed by a person")
            stored = await self._store.move(stored.id, approval)
        return await self.apply(stored.id, call) if stored.state is DeltaState.PLANNED else report(stored)

    async def _images_now(self, progress: Progress, connectors: Connectors, record: Record) -> dict[int, Image]:
        now: dict[int, Image] = {}
        seen: dict[bytes, Image] = {}
        for number, read in reads_needed(progress).items():
            call = progress.call(number)
            filled = Value(exact_json.encode(progress.filled(read.arguments)))
            place = exact_json.encode([call.connector, read.tool, filled.json.decode(), list(read.path)])
            if place not in seen:
                known = msgspec.structs.replace(read, arguments=filled)
                seen[place] = await read_image(connectors, call.connector, known)
            if seen[place] is UNKNOWN:
                raise Refused(f"{call.connector}.{read.tool} did not answer: nothing of {record.id} was undone")
            now[number] = seen[place]
        return now

    # ---- after a crash

    async def settle(self, request: Settle, call: Call) -> DeltaReport:
        """Finish or roll back an interrupted delta, as a person chose."""
        record = await self.load(request.delta, call)
        if record.state is not DeltaState.INTERRUPTED:
            raise Refused(f"{record.id} is {record.state}, not interrupted", state=str(record.state))
        watched = _Watched(call)
        connectors = self._connectors(Principal(record.principal, "system"), call.origin, watched)
        catalogue = await connectors.catalogue()
        machine = _machine(record, catalogue)
        steps = machine.finish() if request.resolve == "finish" else machine.give_up()
        undone = await self._undoing(record)
        plan = record.fixed.plan
        self._start(record, machine, steps, watched, connectors, plan, catalogue, call.deadline, undone)
        await self._wait(watched, call)
        return await self.report(record.id, call)

    async def recover(self) -> None:
        """Take up every delta that was being applied or rolled back when its journal ended."""
        for delta in await self._store.in_states(MOVING):
            record = await self._store.get(delta)
            if record is None or delta in self._running:
                continue
            if record.lease not in {"", self._lease} and owner_lives(record.lease):
                log.warning("%s is being applied by another journal (%s)", delta, record.lease)
                continue
            try:
                await self._resume(record)
            except DeltaError as error:
                log.warning("%s could not be taken up: %s", delta, error.message)

    async def _resume(self, record: Record) -> None:
        watched = _Watched(None)
        connectors = self._connectors(Principal(record.principal, "system"), None, watched)
        with trio.fail_after(self._limits.request_deadline):
            catalogue = await connectors.catalogue()
        record = await self._store.move(record.id, Move(time.time(), MOVING, lease=self._lease))
        machine = _machine(record, catalogue)
        deadline = trio.current_time() + self._limits.request_deadline
        undone, plan = await self._undoing(record), record.fixed.plan
        steps = machine.resume(record.state)
        self._start(record, machine, steps, watched, connectors, plan, catalogue, deadline, undone, patient=True)

    async def _undoing(self, record: Record) -> Undone | None:
        original = await self._store.get(record.undo_of) if record.undo_of is not None else None
        if original is None or original.state is not DeltaState.UNDOING:
            return None
        partly = any(call.state not in MADE for call in original.calls)
        return Undone(original.id, DeltaState.PARTIAL if partly else DeltaState.APPLIED, _whole(record, original))


class _Watched:
    """An apply and the call that waits for it, through which a connector's question reaches the client."""

    def __init__(self, call: Call | None) -> None:
        self.call = call
        self.applying: Applying | None = None

    async def listen(self, item: Item) -> Item | None:
        call = self.call
        if isinstance(item, Question):
            if call is None or call.caller_lost.is_set():
                return Answer(error=exact_json.encode({"code": -32603, "message": "the client is gone"}))
            return await call.question(item)
        if isinstance(item, ProgressItem) and call is not None and not call.caller_lost.is_set():
            await call.emit(item)
        return None


def _fixed(begin: Begin, plan: Plan, returned: Value, redactor: Redactor) -> Fixed:
    kept = redacted_plan(plan, redactor)
    changed = any(a.arguments != b.arguments for a, b in zip(kept.calls, plan.calls, strict=True))
    return Fixed(
        code=redactor.text(begin.code),
        options=redactor.text(begin.options),
        frozen_time=begin.frozen_time,
        seed=begin.seed,
        catalogue=begin.catalogue,
        plan=kept,
        returned=msgspec.structs.replace(returned, json=redactor.json(returned.json)),
        redacted=changed,
    )


def _pins_kept(plan: Plan, catalogue: Catalogue) -> tuple[str, ...]:
    pins = pins_of(plan, catalogue)
    return tuple(text for call in plan.calls for text in (pins.get(call.number, ""), pins.get(-call.number, "")))


def _pins(fixed: Fixed) -> dict[int, str]:
    pins: dict[int, str] = {}
    for call, own, back in zip(fixed.plan.calls, fixed.pins[::2], fixed.pins[1::2], strict=True):
        pins |= {number: pin for number, pin in ((call.number, own), (-call.number, back)) if pin}
    return pins


def _ended(record: Record) -> DeltaReport:
    if record.state in {DeltaState.DECLINED, DeltaState.EXPIRED, DeltaState.REFUSED}:
        raise Refused(f"{record.id} is {record.state}: {record.reason}", state=str(record.state), delta=record.id)
    return report(record)


def progress_of(record: Record) -> Progress:
    """Return what is known of a stored delta's calls, for planning its undo."""

    def unchecked(_: Any, arguments: bytes) -> bytes:  # noqa: ANN401 - a planned call
        return arguments

    return Progress(record.fixed.plan, unchecked, _states(record), _results(record))


def _machine(record: Record, catalogue: Catalogue) -> Apply:
    return Apply(record.fixed.plan, checker(catalogue), states=_states(record), results=_results(record))


def _states(record: Record) -> dict[int, CallState]:
    return {call.number: call.state for call in record.calls}


def _results(record: Record) -> dict[int, Any]:
    return {call.number: exact_json.decode(call.result) for call in record.calls if call.result is not None}


def _after(record: Record) -> dict[int, Image]:
    return {call.number: exact_json.decode(call.after) for call in record.calls if call.after is not None}


def _whole(undo: Record, original: Record) -> bool:
    """Return whether nothing of the original is left out of its undo."""
    stays = any(call.state in MADE and _no_way_back(original, call.number) for call in original.calls)
    return not undo.conflicts and not stays


def _no_way_back(record: Record, number: int) -> bool:
    return record.fixed.plan.calls[number - 1].inverse is None

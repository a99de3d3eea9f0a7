"""What the journal does with each request: begin a program, take in its plan, decide, apply, undo, and look things
up.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
import trio

from delta_actors.journal.applies import ANSWER_EARLY, Applies
from delta_actors.journal.catalogues import Catalogues
from delta_actors.journal.planning import Planning, fingerprint
from delta_actors.journal.proposals import taken_in
from delta_actors.journal.records import NULL, Proposal, ended_program, record_of
from delta_actors.journal.reports import report
from delta_actors.journal.store import Move, Record, Store
from delta_actors.journal.undoing import undo_of
from delta_actors.runtime.actor import Call, Context
from delta_protocol.changes import modes
from delta_protocol.changes.ids import DELTA_ID, new_delta_id
from delta_protocol.changes.model import DeltaState, Value
from delta_protocol.changes.states import PENDING, UNDOABLE
from delta_protocol.errors import Conflict, Invalid, NotFound, Refused
from delta_protocol.wire.journal import (
    Abandon,
    Approve,
    Begin,
    Begun,
    Decline,
    DeltaPage,
    DeltaReport,
    ListDeltas,
    Propose,
    Settle,
    Undo,
)
from delta_protocol.wire.message import Principal, Role

DAY = 86_400.0
LOOK_WAIT = 5.0
"""Seconds that an answer waits for a look at what had ended unknown."""


class Desk:
    """One per journal."""

    def __init__(self, store: Store, context: Context) -> None:
        self._store = store
        self._mode = context.config.mode
        self._limits = context.config.limits
        self._planning = Planning()
        self._catalogues = Catalogues(context.ref(Role.REGISTRY))
        self._applies = Applies(store, context, self._catalogues)
        self._beginning = trio.Lock()

    def statistics(self) -> dict[str, Any]:
        """Return how many programs, applies and locks there are."""
        return {"planning": len(self._planning), **self._applies.statistics(), **self._catalogues.statistics()}

    async def recover(self) -> None:
        """Take up what a crash left."""
        await self._applies.recover()

    async def begin(self, request: Begin, call: Call) -> Begun:
        """Begin the program, or return the report of the same program that ran a moment ago.

        Raises `Invalid` for a proposed name that is none, `Conflict` for one that is in use.
        """
        delta = request.proposed or new_delta_id()
        if DELTA_ID.fullmatch(delta) is None:
            raise Invalid(f"{delta!r} is no name of a delta", what="proposed")
        if request.proposed and await self._store.get(delta) is not None:
            raise Conflict(f"there is a delta {delta} already", delta=delta)
        if not request.again:
            repeated = await self._repeated(request, call)
            if repeated is not None:
                return Begun(repeated.id, repeated)
        program = self._planning.begin(
            delta, request, call.principal, time.time(), deadline=call.deadline, lost=call.caller_lost
        )
        return Begun(program.id)

    async def _repeated(self, request: Begin, call: Call) -> DeltaReport | None:
        key = fingerprint(request, call.principal)
        while True:
            running = self._planning.running(key)
            if running is not None:
                with trio.move_on_at(call.deadline - ANSWER_EARLY):
                    await running.ended.wait()
            found = await self._store.find_repeat(key, time.time() - self._limits.repeat_window)
            if found is not None:
                break
            # While the store was asked, another of the same may have begun.
            if self._planning.running(key) in (None, running):
                return None
        await self._applies.wait(found.id, call)
        record = await self._store.get(found.id) or found
        return report(record, same_as=max(0.0, time.time() - record.created))

    async def abandon(self, request: Abandon, call: Call) -> DeltaReport:
        """End a program without a plan. One that changed nothing leaves nothing behind; a failed one is kept.

        One whose plan has been stored meanwhile is declined, unless it is past that: its report says what it is.
        """
        try:
            program = await self._planning.take(request.delta, call.principal)
        except NotFound:
            record = await self._withdrawn(request.delta, request.reason, call.principal)
            if record is None:
                raise
            return report(record)
        try:
            returned = NULL if request.returned is None else Value(request.returned)
            begin, created = program.begin, program.created
            record = ended_program(program.id, begin, program.principal.id, created, request.reason, returned)
            if request.reason:
                await self._store.insert(record)
            return report(record)
        finally:
            self._planning.end(program.id)

    async def _withdrawn(self, delta: str, reason: str, principal: Principal) -> Record | None:
        """Decline a stored delta that its client no longer wants, unless it is past that; return it as it is."""
        async with self._beginning:
            record = await self._store.get(delta)
            if record is None or record.principal != principal.id:
                return None
            if not self._applies.withdraw(delta, reason):
                self._applies.forget(delta)
                await self._applies.decline_withdrawn(delta, reason)
            return await self._store.get(delta)

    async def propose(self, request: Propose, call: Call) -> DeltaReport:
        """Take in a plan, decide by mode, and store it."""
        program = await self._planning.take(request.delta, call.principal)
        try:
            connectors = self._applies.connectors(call.principal, call.origin)
            catalogue = await self._catalogues.of(request.plan.catalogue)
            plan = await taken_in(request.plan, catalogue, connectors, self._limits)
            proposal = Proposal(
                id=program.id,
                begin=program.begin,
                principal=program.principal.id,
                created=program.created,
                plan=plan,
                catalogue=catalogue,
                returned=request.returned,
                reads=request.reads,
                notes=request.notes,
                dry_run=request.dry_run or program.begin.dry_run,
            )
            return report(await self._stored(proposal))
        finally:
            self._planning.end(program.id)

    async def _stored(self, proposal: Proposal) -> Record:
        decision = modes.decide(proposal.plan, proposal.catalogue, self._mode, self._limits)
        record = record_of(proposal, decision, self._limits.approval_expiry)
        await self._store.insert(record)
        if record.fixed.redacted and record.state in PENDING:
            self._applies.remember(record.id, proposal.plan)
        return record

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

    async def looked_up(self, delta: str, call: Call) -> DeltaReport:
        """Return a delta's report; of one that ended unknown, after looking again where that is due."""
        record = await self.load(delta, call)
        if await self._applies.look_again(record):
            with trio.move_on_after(LOOK_WAIT):
                await self._applies.wait(delta, call)
            record = await self.load(delta, call)
        return report(record)

    async def page(self, request: ListDeltas, call: Call) -> DeltaPage:
        """Return reports, newest first: with all figures, without the calls themselves."""
        own = None if call.caller == Role.OPERATOR else call.principal.id
        limit = max(1, min(request.limit, 200))
        records = await self._store.page(own, request.before, limit + 1)
        return DeltaPage(tuple(_without_calls(record) for record in records[:limit]), len(records) > limit)

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
        self._applies.forget(record.id)
        return report(declined)

    async def _already(self, delta: str, what: str) -> str:
        record = await self._store.get(delta)
        if record is None:
            return f"{delta} is gone"
        at = time.strftime("%H:%M:%S", time.localtime(record.approved_at or record.changed))
        how = f"already approved over {record.approved_by} at {at}" if record.approved_by else f"changed at {at}"
        return f"{delta} cannot be {what}: it is {record.state} ({how})"

    async def _expire(self, delta: str) -> Record | None:
        self._applies.forget(delta)
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

    async def apply(self, delta: str, call: Call) -> DeltaReport:
        """Apply a delta that may be applied; answer at the end, or at the caller's deadline with how far it is."""
        async with self._beginning:
            if not self._applies.is_running(delta):
                record = await self.load(delta, call)
                if record.state not in PENDING:
                    return _ended(record)
                if record.state is DeltaState.WAITING and record.needs_person:
                    how = f"delta-supervisor approve {delta}"
                    raise Refused(f"{delta} {record.reason}: {how}", delta=delta, state="waiting")
                refused = await self._applies.begin(record, call)
                if refused is not None:
                    return report(refused)
        await self._applies.wait(delta, call)
        return await self.report(delta, call)

    async def undo(self, request: Undo, call: Call) -> DeltaReport:
        """Plan the undo as a delta of its own, and apply it if the mode lets it."""
        record = await self.load(request.delta, call)
        if record.state is DeltaState.UNKNOWN:
            # It may be looked at again just now, and turn out not to stand.
            await self._applies.wait(record.id, call)
            record = await self.load(record.id, call)
        if record.state not in UNDOABLE:
            raise Refused(f"{record.id} is {record.state}: there is nothing to undo", state=str(record.state))
        connectors = self._applies.connectors(Principal(record.principal, "system"), call.origin)
        catalogue = await self._catalogues.newest()
        by_person = call.caller == Role.OPERATOR
        stored = await self._stored(await undo_of(record, catalogue, connectors, request.force, by_person=by_person))
        if stored.state is not DeltaState.PLANNED:
            return report(stored)
        try:
            return await self.apply(stored.id, call)
        except trio.Cancelled:
            if call.cancelled:
                with trio.CancelScope(shield=True):
                    await self._withdrawn(stored.id, "the client cancelled", Principal(stored.principal, ""))
            raise

    async def settle(self, request: Settle, call: Call) -> DeltaReport:
        """Finish or roll back an interrupted delta, as a person chose."""
        record = await self.load(request.delta, call)
        async with self._beginning:
            if record.state is not DeltaState.INTERRUPTED or self._applies.is_running(record.id):
                raise Refused(f"{record.id} is {record.state}, not interrupted", state=str(record.state))
            await self._applies.settle(record, request.resolve, call)
        await self._applies.wait(record.id, call)
        return await self.report(record.id, call)


def _without_calls(record: Record) -> DeltaReport:
    return msgspec.structs.replace(report(record), calls=())


def _ended(record: Record) -> DeltaReport:
    if record.state is DeltaState.FAILED:
        raise Refused(f"the program of {record.id} failed: there is nothing to apply", state="failed", delta=record.id)
    if record.state in {DeltaState.DECLINED, DeltaState.EXPIRED, DeltaState.REFUSED}:
        raise Refused(f"{record.id} is {record.state}: {record.reason}", state=str(record.state), delta=record.id)
    return report(record)

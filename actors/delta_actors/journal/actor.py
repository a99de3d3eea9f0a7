"""The journal actor: what it answers, and what it does on its own (recovery, expiry, retention)."""

from __future__ import annotations

from typing import Any, ClassVar

import trio

from delta_actors.journal.desk import Desk
from delta_actors.journal.sqlite import SqliteStore
from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_protocol.errors import Invalid, Refused
from delta_protocol.wire.journal import (
    Abandon,
    Apply,
    Approve,
    Begin,
    Begun,
    Decline,
    DeltaPage,
    DeltaReport,
    GetDelta,
    ListDeltas,
    Propose,
    Replan,
    Replanned,
    Settle,
    Undo,
)
from delta_protocol.wire.message import Role

SWEEP = 30.0
"""Seconds between looks for what expired or is too old."""


class JournalActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.JOURNAL

    def __init__(self) -> None:
        self._store: SqliteStore | None = None
        self._desk: Desk | None = None

    async def start(self, context: Context) -> tuple[str, ...]:
        """Open the file and bring it to the newest schema. Raises `Refused` for one of a newer program, and
        `Invalid` for a damaged one.
        """
        self._store = SqliteStore(context.state_dir / "journal.db")
        self._desk = Desk(self._store, context)
        return ()

    def handlers(self) -> Handlers:
        """What may be asked. Applies go on when their caller is lost."""
        handlers = Handlers()
        handlers.ask(Begin, self._begin)
        handlers.ask(Propose, self._propose)
        handlers.ask(Abandon, self._abandon)
        handlers.ask(Apply, self._apply, keep_when_lost=True)
        handlers.ask(Undo, self._undo, keep_when_lost=True)
        handlers.ask(Settle, self._settle, keep_when_lost=True)
        handlers.ask(Replan, self._replan)
        handlers.ask(Approve, self._approve)
        handlers.ask(Decline, self._decline)
        handlers.ask(GetDelta, self._get)
        handlers.ask(ListDeltas, self._list)
        return handlers

    async def run(self) -> None:
        """Take up what a crash left, then look after expiry and retention."""
        await self._open.recover()
        while True:
            await self._open.sweep()
            await trio.sleep(SWEEP)

    async def stop(self) -> None:
        """Close the file."""
        if self._store is not None:
            await self._store.close()

    def statistics(self) -> dict[str, Any]:
        """How much is going on."""
        desk = self._desk
        return {} if desk is None or self._store is None else desk.statistics() | self._store.statistics()

    @property
    def _open(self) -> Desk:
        assert self._desk is not None
        return self._desk

    async def _begin(self, request: Begin, call: Call) -> Begun:
        return await self._open.begin(request, call)

    async def _propose(self, request: Propose, call: Call) -> DeltaReport:
        return await self._open.propose(request, call)

    async def _abandon(self, request: Abandon, call: Call) -> DeltaReport:
        return await self._open.abandon(request, call)

    async def _apply(self, request: Apply, call: Call) -> DeltaReport:
        return await self._open.apply(request.delta, call)

    async def _undo(self, request: Undo, call: Call) -> DeltaReport:
        return await self._open.undo(request, call)

    async def _settle(self, request: Settle, call: Call) -> DeltaReport:
        if call.caller != Role.OPERATOR:
            raise Refused("only a person at the command line settles an interrupted delta")
        if request.resolve not in {"finish", "roll_back"}:
            raise Invalid(f"resolve is finish or roll_back, not {request.resolve!r}")
        return await self._open.settle(request, call)

    async def _replan(self, request: Replan, call: Call) -> Replanned:
        record = await self._open.load(request.delta, call)
        fixed = record.fixed
        if fixed.redacted or not fixed.code:
            raise Refused(f"the program of {request.delta} is not kept whole: submit it again")
        return Replanned(fixed.code)

    async def _approve(self, request: Approve, call: Call) -> DeltaReport:
        _only_from_a_person(call, request.channel)
        return await self._open.approve(request, call)

    async def _decline(self, request: Decline, call: Call) -> DeltaReport:
        _only_from_a_person(call, request.channel)
        return await self._open.decline(request, call)

    async def _get(self, request: GetDelta, call: Call) -> DeltaReport:
        return await self._open.looked_up(request.delta, call)

    async def _list(self, request: ListDeltas, call: Call) -> DeltaPage:
        return await self._open.page(request, call)


def _only_from_a_person(call: Call, channel: str) -> None:
    """A model has no hand on the operator's link, nor on an elicitation that its client's user answers."""
    if call.caller == Role.OPERATOR or (call.caller == Role.TRANSPORT and channel == "elicitation"):
        return
    raise Refused(f"a decision cannot come from {call.caller} over {channel!r}")

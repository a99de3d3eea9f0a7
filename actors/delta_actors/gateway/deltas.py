"""`delta_apply`: what can be done with a delta that the journal already has."""

from __future__ import annotations

import trio

from delta_actors.gateway.caller import Caller
from delta_actors.runtime.actor import Ref
from delta_protocol.changes.model import DeltaState
from delta_protocol.errors import ActorCrashed, ActorUnavailable, DeadlineExceeded
from delta_protocol.wire.journal import Apply, DeltaReport, GetDelta, Settle, Undo
from delta_protocol.wire.message import Request

_LOOK = 2.0
"""Seconds for asking, at the deadline, how far a delta has come."""


class Deltas:
    """Applies, undoes and settles deltas, and says truly how far they came when time ran out."""

    def __init__(self, journal: Ref) -> None:
        self._journal = journal

    async def apply(self, caller: Caller, delta: str) -> DeltaReport:
        """Make the calls of a delta. At the deadline its state so far is the answer; the journal goes on by itself."""
        await caller.doing("making the changes")
        report = await self._until_deadline(caller, Apply(delta), delta)
        if report.state is DeltaState.PLANNED and trio.current_time() < caller.deadline:
            # The journal died before it began: nothing was sent, and its state table lets only one apply begin.
            report = await self._until_deadline(caller, Apply(delta), delta)
        return report

    async def settle(self, caller: Caller, delta: str, resolve: str) -> DeltaReport:
        """Finish or roll back an interrupted delta."""
        await caller.doing("settling")
        return await self._until_deadline(caller, Settle(delta, resolve), delta)

    async def undo(self, caller: Caller, delta: str, force: tuple[str, ...]) -> DeltaReport:
        """Undo a delta; the report is that of the delta which does so."""
        await caller.doing("undoing")
        undoing = await self._until_deadline(caller, Undo(delta, force), delta)
        if undoing.state is DeltaState.PLANNED and undoing.id != delta:
            return await self.apply(caller, undoing.id)
        return undoing

    async def _until_deadline(self, caller: Caller, request: Request[DeltaReport], delta: str) -> DeltaReport:
        """Ask, and where no answer comes look up what became of it. A cancelled caller cancels the request."""
        caller.changing()
        lost: ActorCrashed | None = None
        with trio.move_on_at(caller.deadline):
            try:
                return await self._journal.ask(request, listener=caller.listen)
            except DeadlineExceeded:
                pass
            except ActorCrashed as error:
                lost = error
        with trio.move_on_at(max(caller.deadline, trio.current_time()) + _LOOK / 2):
            return await self._journal.ask(GetDelta(delta))
        raise lost or ActorUnavailable(f"the journal does not answer; look later with delta_read: delta:{delta}")

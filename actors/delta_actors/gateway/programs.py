"""`delta`, `delta_read { code }` and planning anew: one program from its text to its outcome.

begin (journal) -> run (sandbox) -> propose (journal) -> apply (journal); whatever ends it early, the journal is told.
"""

from __future__ import annotations

import secrets
import time

import trio

from delta_actors.gateway.answering import Facts, Returned
from delta_actors.gateway.caller import Caller
from delta_actors.gateway.catalogues import Catalogues
from delta_actors.gateway.deltas import Deltas
from delta_actors.runtime.actor import Ref
from delta_protocol.answers import program, report
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.ids import new_delta_id
from delta_protocol.changes.model import DeltaState
from delta_protocol.codecs import exact_json
from delta_protocol.config import LimitsConfig
from delta_protocol.errors import ActorCrashed, DeltaError
from delta_protocol.wire.journal import Abandon, Begin, Begun, DeltaReport, Propose
from delta_protocol.wire.sandbox import ProgramError, ProgramOutcome, RunProgram

_LAST_WORDS = 2.0
"""Seconds for telling the journal that a cancelled program came to nothing."""


class Programs:
    """Runs programs for clients."""

    def __init__(
        self, sandbox: Ref, journal: Ref, catalogues: Catalogues, deltas: Deltas, limits: LimitsConfig
    ) -> None:
        self._sandbox = sandbox
        self._journal = journal
        self._catalogues = catalogues
        self._deltas = deltas
        self._limits = limits

    async def run(self, caller: Caller, code: str, *, dry_run: bool = False, again: bool = False) -> Facts:
        """Run `code` and, unless `dry_run`, make its changes. Raises what the journal refuses to begin."""
        catalogue: Catalogue | None = None
        with trio.move_on_at(caller.deadline):
            await caller.doing("waiting for connectors")
            catalogue = await self._catalogues.with_started(code)
        if catalogue is None:
            return _late("a connector that the program names was still starting; nothing was run")
        begin = Begin(
            conversation=caller.conversation,
            code=code,
            options=_options(catalogue, dry_run=dry_run),
            catalogue=catalogue.number,
            frozen_time=int(time.time() * 1000),
            seed=secrets.randbits(32),
            again=again,
            dry_run=dry_run,
            proposed=new_delta_id(),
        )
        try:
            begun = await self._journal.ask(begin, nowait=True)
        except trio.Cancelled:
            # It may have begun all the same: a repeat would then wait for a program that nobody runs.
            await self._abandon(Abandon(begin.proposed, "the client cancelled"))
            raise
        if begun.repeated is not None:
            return _repeated(begun.repeated)
        return await self._planned(caller, begin, begun)

    async def _planned(self, caller: Caller, begin: Begin, begun: Begun) -> Facts:
        handed_in = False
        reason = "the program was cancelled"
        try:
            outcome = await self._execute(caller, begin)
            if outcome.error is not None or outcome.plan is None or not outcome.plan.calls:
                handed_in = True
                return await self._ended(begun.delta, outcome)
            await caller.doing("checking the plan")
            proposal = Propose(begun.delta, outcome.plan, outcome.returned, outcome.reads, begin.dry_run, outcome.notes)
            proposed = await self._journal.ask(proposal, listener=caller.listen)
            handed_in = True
        except DeltaError as error:
            reason = error.message
            raise
        finally:
            if not handed_in:
                await self._abandon(Abandon(begun.delta, reason))
        final = proposed
        if proposed.state is DeltaState.PLANNED and not begin.dry_run:
            final = await self._made(caller, begun.delta)
        return Facts(
            _value(outcome, final),
            final,
            console=outcome.console,
            notes=(*outcome.notes, *(note for note in final.notes if note not in outcome.notes)),
        )

    async def _made(self, caller: Caller, delta: str) -> DeltaReport:
        try:
            return await self._deltas.apply(caller, delta)
        except trio.Cancelled:
            # Its client never learns the id of a plan that was not begun, so nobody else would end it.
            await self._abandon(Abandon(delta, "the client cancelled"))
            raise

    async def _execute(self, caller: Caller, begin: Begin) -> ProgramOutcome:
        await caller.doing("running the program")
        run = RunProgram(begin.code, begin.catalogue, begin.frozen_time, begin.seed, self._limits.program)
        with trio.move_on_at(caller.deadline) as running:
            try:
                return await self._sandbox.ask(run, listener=caller.listen, nowait=True)
            except ActorCrashed as error:
                # A program only reads while it runs: whatever it had planned was lost with its sandbox.
                message = "the sandbox died while the program ran; nothing was changed, run the same program again"
                raise ActorCrashed(message, **error.detail) from None
        assert running.cancelled_caught
        seconds = self._limits.request_deadline
        return ProgramOutcome(
            error=ProgramError("deadline", "DeadlineExceeded", f"the program did not end within {seconds:g} s")
        )

    async def _ended(self, delta: str, outcome: ProgramOutcome) -> Facts:
        """The program changed nothing, or failed."""
        if outcome.error is None:
            await self._abandon(Abandon(delta, "", outcome.returned.json, outcome.reads))
            return Facts(
                Returned(exact_json.decode(outcome.returned.json)), console=outcome.console, notes=outcome.notes
            )
        error = outcome.error
        await self._abandon(Abandon(delta, program.reason(error), reads=outcome.reads))
        return Facts(
            failure=program.error_text(error),
            error=program.error_facts(error),
            console=outcome.console,
            notes=outcome.notes,
        )

    async def _abandon(self, request: Abandon) -> None:
        """Tell the journal, also when the client has cancelled; a journal that is away finds out by itself."""
        with trio.CancelScope(deadline=trio.current_time() + _LAST_WORDS, shield=True):
            try:
                await self._journal.ask(request)
            except DeltaError:
                return


def _options(catalogue: Catalogue, *, dry_run: bool) -> str:
    """Return what besides the code makes two requests the same (plan-apply-undo 5.15)."""
    connectors = [connector.name for connector in catalogue.connectors]
    return exact_json.canonical({"connectors": connectors, "dryRun": dry_run}).decode()


def _value(outcome: ProgramOutcome, final: DeltaReport) -> Returned | None:
    """Return the program's value where it is true: with its placeholders filled, or still to come."""
    if final.returned is not None and final.state is DeltaState.APPLIED:
        return Returned(exact_json.decode(final.returned))
    if final.state in (DeltaState.PLANNED, DeltaState.WAITING) and outcome.plan is not None:
        return Returned(program.planned_value(outcome.returned, outcome.plan))
    return None


def _repeated(first: DeltaReport) -> Facts:
    returned = None if first.returned is None else Returned(exact_json.decode(first.returned))
    return Facts(returned, first, heading=report.repeated(first))


def _late(why: str) -> Facts:
    return Facts(failure=why, error={"kind": "deadline", "name": "DeadlineExceeded", "message": why})

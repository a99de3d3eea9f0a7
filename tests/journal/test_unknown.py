"""A delta that ended unknown is looked at again later, with reads alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from delta_actors.journal import applies
from delta_protocol.changes import probing
from delta_protocol.changes.model import CallState, DeltaState
from delta_protocol.wire.journal import DeltaReport, ListDeltas
from delta_protocol.wire.message import Role
from tests.journal.stand import Stand, closing, standing
from tests.journal.world import TICKET, World


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe once instead of four times, and look again at once."""
    monkeypatch.setattr(probing, "RETRIES", ())
    monkeypatch.setattr(applies, "LOOK_AGAIN", 0.0)


async def unknown(stand: Stand, fault: str, at: int = 1) -> DeltaReport:
    """Close the ticket with call number `at` left in doubt: no answer, and nothing can be read."""
    world = stand.world
    world.faults[len(world.writes) + at] = fault
    world.before_write[len(world.writes) + at] = lambda: setattr(world, "blind", True)
    report = await stand.done(closing())
    assert report.state is DeltaState.UNKNOWN
    return report


async def test_what_was_made_after_all_counts_as_applied_and_can_be_undone(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        delta = (await unknown(stand, "commits silently", 2)).id
        stand.world.blind = False
        made = len(stand.world.writes)
        report = await stand.get(delta)
        assert (report.state, report.verified, report.undoable) == (DeltaState.APPLIED, 2, 2)
        assert "looked again later" in report.calls[1].detail
        assert len(stand.world.writes) == made
        await stand.undo(delta)
        assert stand.world.tickets == {"T-1": TICKET}


async def test_what_was_not_made_leaves_nothing_or_a_part(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        nothing = (await unknown(stand, "silent")).id
        stand.world.blind = False
        report = await stand.get(nothing)
        assert report.state is DeltaState.ROLLED_BACK
        assert report.calls[0].state is CallState.FAILED
        assert stand.world.tickets == {"T-1": TICKET}
        part = (await unknown(stand, "silent", 2)).id
        stand.world.blind = False
        report = await stand.get(part)
        assert (report.state, report.undoable) == (DeltaState.PARTIAL, 1)
        await stand.undo(part)
        assert stand.world.tickets == {"T-1": TICKET}


async def test_while_reading_cannot_tell_it_stays_unknown(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        delta = (await unknown(stand, "commits silently")).id
        history = (await stand.get(delta)).changed
        report = await stand.get(delta)
        assert (report.state, report.changed) == (DeltaState.UNKNOWN, history)


async def test_soon_after_the_end_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applies, "LOOK_AGAIN", 3600.0)
    async with standing(tmp_path) as stand:
        delta = (await unknown(stand, "commits silently")).id
        stand.world.blind = False
        assert (await stand.get(delta)).state is DeltaState.UNKNOWN


async def test_an_undo_that_ended_unknown_is_known_later(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        world = stand.world
        done = await stand.done(closing())
        world.faults[4] = "commits silently"
        world.before_write[4] = lambda: setattr(world, "blind", True)
        undo = await stand.undo(done.id)
        assert undo.state is DeltaState.UNKNOWN
        assert (await stand.get(done.id)).state is DeltaState.PARTLY_UNDONE
        world.blind = False
        assert (await stand.get(undo.id)).state is DeltaState.APPLIED
        assert world.tickets == {"T-1": TICKET}
        first = await stand.get(done.id)
        assert (first.state, first.undone_by) == (DeltaState.UNDONE, undo.id)


async def test_a_restarted_journal_looks_on_its_own(tmp_path: Path) -> None:
    world = World()
    async with standing(tmp_path, world) as stand:
        delta = (await unknown(stand, "commits silently", 2)).id
        world.blind = False
        stand.system.kill(Role.JOURNAL)
        with trio.fail_after(20):
            while not stand.system.restarts(Role.JOURNAL):
                await trio.sleep(0.02)
            while not any(page.state is DeltaState.APPLIED for page in await pages(stand)):
                await trio.sleep(0.05)
        assert [page.id for page in await pages(stand)] == [delta]


async def pages(stand: Stand) -> tuple[DeltaReport, ...]:
    """What is stored, without asking for anything to be looked at."""
    return (await stand.client.ask(ListDeltas())).deltas

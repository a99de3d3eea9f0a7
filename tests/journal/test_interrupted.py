"""Applies that a deadline, a cancel, a lost journal or each other get in the way of."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from delta_protocol.changes.model import CallState, DeltaState, Recording
from delta_protocol.errors import Refused
from delta_protocol.wire.journal import (
    Approve,
    DeltaReport,
    Settle,
)
from delta_protocol.wire.message import Role
from tests.journal.stand import Stand, closing, standing, ticket, writes
from tests.journal.world import TICKET


async def test_at_the_deadline_the_client_hears_the_state_and_the_rest_is_settled(tmp_path: Path) -> None:
    async with standing(tmp_path, settle=0.5) as stand:
        planned = await stand.propose(closing())
        stand.registry.hang.add(2)
        report = await stand.apply(planned.id, 1.0)
        assert report.state is DeltaState.APPLYING
        with trio.fail_after(20):
            while (report := await stand.get(planned.id)).state is DeltaState.APPLYING:
                await trio.sleep(0.05)
        assert report.state is DeltaState.UNKNOWN
        assert [call.state for call in report.calls] == [CallState.ACKED, CallState.UNKNOWN]


async def test_an_explicit_cancel_turns_the_apply_back(stand: Stand) -> None:
    planned = await stand.propose(closing())
    stand.registry.gate = trio.Event()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand.apply, planned.id)
            await stand.registry.arrived.wait()
            scope.cancel()
    await trio.testing.wait_all_tasks_blocked(0.05)
    stand.registry.gate.set()
    with trio.fail_after(20):
        while (report := await stand.get(planned.id)).state in {DeltaState.APPLYING, DeltaState.ROLLING_BACK}:
            await trio.sleep(0.02)
    assert report.state is DeltaState.ROLLED_BACK
    assert stand.world.tickets == {"T-1": TICKET}


async def test_an_explicit_cancel_during_the_last_write_turns_it_back_too(stand: Stand) -> None:
    planned = await stand.propose(Recording((ticket({"status": "closed"}),)))
    stand.registry.gate = trio.Event()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand.apply, planned.id)
            await stand.registry.arrived.wait()
            scope.cancel()
    await trio.testing.wait_all_tasks_blocked(0.05)
    stand.registry.gate.set()
    report = await _settled(stand, planned.id)
    assert report.state is DeltaState.ROLLED_BACK
    assert report.reason == "the client cancelled"
    assert [tool for tool, _ in stand.world.writes] == ["update_ticket", "update_ticket"]
    assert stand.world.tickets == {"T-1": TICKET}


async def test_a_deadline_during_the_last_write_lets_the_finished_change_stand(stand: Stand) -> None:
    planned = await stand.propose(Recording((ticket({"status": "closed"}),)))
    stand.registry.gate = trio.Event()
    report = await stand.apply(planned.id, 1.0)
    assert report.state is DeltaState.APPLYING
    await trio.sleep(1)
    stand.registry.gate.set()
    assert (await _settled(stand, planned.id)).state is DeltaState.APPLIED


async def _settled(stand: Stand, delta: str) -> DeltaReport:
    with trio.fail_after(20):
        while (report := await stand.get(delta)).state in {DeltaState.APPLYING, DeltaState.ROLLING_BACK}:
            await trio.sleep(0.02)
    return report


async def test_a_lost_journal_is_taken_up_where_it_was(stand: Stand) -> None:
    planned = await stand.propose(closing())
    stand.registry.gate = trio.Event()

    async def lose() -> None:
        try:
            await stand.apply(planned.id)
        except Exception:
            return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        await stand.registry.arrived.wait()
        stand.system.kill(Role.JOURNAL)
    stand.registry.gate.set()
    with trio.fail_after(30):
        while (report := await stand.get(planned.id)).state in {DeltaState.APPLYING, DeltaState.ROLLING_BACK}:
            await trio.sleep(0.05)
    assert report.state is DeltaState.ROLLED_BACK
    assert stand.world.tickets == {"T-1": TICKET}


async def test_two_deltas_on_one_entity_are_made_one_after_the_other(stand: Stand) -> None:
    first = await stand.propose(Recording((ticket({"status": "closed"}),)), code="1")
    second = await stand.propose(Recording((ticket({"status": "late"}),)), code="2")
    reports: list[DeltaReport] = []

    async def run(delta: str) -> None:
        reports.append(await stand.apply(delta))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, first.id)
        nursery.start_soon(run, second.id)
    assert sorted(report.state for report in reports) == [DeltaState.APPLIED, DeltaState.REFUSED]
    assert len(stand.world.writes) == 1


async def test_an_interrupted_delta_is_settled_by_a_person(stand: Stand) -> None:
    recording = writes(
        ("tickets", "send_mail", {"to": "a", "text": "b"}), ("tickets", "update_ticket", {"id": "T-1", "status": "x"})
    )
    planned = await stand.propose(recording)
    await stand.operator.ask(Approve(planned.id, "command line"))
    stand.registry.hang.add(2)

    async def lose() -> None:
        try:
            await stand.apply(planned.id)
        except Exception:
            return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        with trio.fail_after(20):
            while len(stand.world.writes) < 2:
                await trio.sleep(0.02)
        stand.system.kill(Role.JOURNAL)
    with trio.fail_after(30):
        while (report := await stand.get(planned.id)).state is DeltaState.APPLYING:
            await trio.sleep(0.05)
    assert report.state is DeltaState.INTERRUPTED
    with pytest.raises(Refused, match="only a person"):
        await stand.client.ask(Settle(planned.id, "roll_back"))
    settled = await stand.operator.ask(Settle(planned.id, "roll_back"))
    assert settled.state is DeltaState.PARTIAL
    assert stand.world.mails == [["a", "b"]]

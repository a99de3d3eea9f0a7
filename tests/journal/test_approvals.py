"""Who lets a plan through, for how long, and what makes it void."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from delta_protocol.catalogue.model import Catalogue, Mode
from delta_protocol.changes.ids import new_delta_id
from delta_protocol.changes.model import DeltaState, Value
from delta_protocol.changes.plan import build_plan, sealed
from delta_protocol.errors import Conflict, Invalid, NotFound, Refused
from delta_protocol.wire.journal import (
    Abandon,
    Approve,
    Begin,
    Decline,
    GetDelta,
    ListDeltas,
    Propose,
)
from delta_protocol.wire.message import Principal, Role
from tests.changes.catalogues import catalogue, files, graph, tickets
from tests.journal.stand import Stand, closing, standing, writes


async def test_a_call_that_cannot_be_undone_waits_for_a_person(stand: Stand) -> None:
    planned = await stand.propose(writes(("tickets", "send_mail", {"to": "a", "text": "b"})))
    assert planned.state is DeltaState.WAITING
    with pytest.raises(Refused, match="approve"):
        await stand.apply(planned.id)
    with pytest.raises(Refused, match="cannot come from transport"):
        await stand.client.ask(Approve(planned.id, "console"))
    await stand.operator.ask(Approve(planned.id, "command line"))
    report = await stand.apply(planned.id)
    assert report.state is DeltaState.APPLIED
    assert stand.world.mails == [["a", "b"]]
    with pytest.raises(Refused, match="nothing of"):
        await stand.undo(report.id)


async def test_twenty_approvals_at_once_count_as_one(stand: Stand) -> None:
    planned = await stand.propose(writes(("tickets", "send_mail", {"to": "a", "text": "b"})))
    outcomes: list[str] = []

    async def approve() -> None:
        try:
            await stand.operator.ask(Approve(planned.id, "command line"))
            outcomes.append("yes")
        except Refused as error:
            outcomes.append(error.message)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(approve)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(stand.apply, planned.id)
    assert outcomes.count("yes") == 1
    assert sum("already approved over command line" in outcome for outcome in outcomes) == 19
    assert stand.world.mails == [["a", "b"]]


async def test_declined_and_expired_deltas_cannot_be_applied(tmp_path: Path) -> None:
    async with standing(tmp_path, approval_expiry=0.05) as stand:
        mail = writes(("tickets", "send_mail", {"to": "a", "text": "b"}))
        declined = await stand.propose(mail)
        report = await stand.operator.ask(Decline(declined.id, "command line", "not now"))
        assert (report.state, report.reason) == (DeltaState.DECLINED, "declined: not now")
        late = await stand.propose(mail)
        await trio.sleep(0.1)
        with pytest.raises(Refused, match="cannot be approved: it is expired"):
            await stand.operator.ask(Approve(late.id, "command line"))
        for delta in (declined.id, late.id):
            with pytest.raises(Refused):
                await stand.apply(delta)
        assert stand.world.mails == []


async def test_a_dry_run_can_be_applied_later(stand: Stand) -> None:
    planned = await stand.propose(closing(), dry_run=True)
    assert planned.state is DeltaState.WAITING
    assert stand.world.writes == []
    assert (await stand.apply(planned.id)).state is DeltaState.APPLIED


async def test_a_repeated_program_gets_the_first_outcome(stand: Stand) -> None:
    begin = Begin("c1", "code", "{}", 7, 0, 0)
    first = await stand.client.ask(begin)
    assert first.repeated is None
    plan = build_plan(closing(), catalogue())
    results: list[Any] = []

    async def repeat() -> None:
        results.append(await stand.client.ask(begin))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(repeat)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await stand.client.ask(Propose(first.delta, plan, Value(b"1")))
            await stand.apply(first.delta)
        again = await stand.client.ask(begin)
    for begun in (*results, again):
        assert begun.delta == first.delta
        assert begun.repeated.same_as >= 0
    assert again.repeated is not None
    assert again.repeated.state is DeltaState.APPLIED
    other = await stand.client.ask(msgspec.structs.replace(begin, conversation="c2"))
    assert other.repeated is None
    assert (await stand.client.ask(msgspec.structs.replace(begin, again=True))).repeated is None


async def test_a_program_that_changed_nothing_leaves_nothing(stand: Stand) -> None:
    begun = await stand.client.ask(Begin("c1", "1", "{}", 7, 0, 0))
    report = await stand.client.ask(Abandon(begun.delta, "", b"42"))
    assert (report.state, report.returned, report.calls) == (DeltaState.APPLIED, b"42", ())
    assert (await stand.client.ask(ListDeltas())).deltas == ()
    failed = await stand.client.ask(Begin("c1", "2", "{}", 7, 0, 0))
    await stand.client.ask(Abandon(failed.delta, "TypeError: x"))
    (kept,) = (await stand.client.ask(ListDeltas())).deltas
    assert kept.reason == "TypeError: x"


async def test_deltas_are_their_principals_alone(stand: Stand) -> None:
    report = await stand.done(closing())
    other = stand.system.ref(Role.JOURNAL, as_=Role.TRANSPORT, principal=Principal("ben", "token"))
    with pytest.raises(NotFound):
        await other.ask(GetDelta(report.id))
    assert (await other.ask(ListDeltas())).deltas == ()
    assert [each.id for each in (await stand.operator.ask(ListDeltas())).deltas] == [report.id]
    with pytest.raises(NotFound, match=report.id):
        await stand.get("d_nothing")


async def test_a_tampered_plan_and_wrong_arguments_are_refused(stand: Stand) -> None:
    plan = build_plan(closing(), catalogue())
    forged = sealed(msgspec.structs.replace(plan, preconditions=()))
    begun = await stand.client.ask(Begin("c1", "f", "{}", 7, 0, 0))
    with pytest.raises(Invalid, match="do not follow"):
        await stand.client.ask(Propose(begun.delta, forged, Value(b"1")))
    with pytest.raises(Invalid, match=r"line 1: call 1: tickets: .*update_ticket"):
        await stand.propose(writes(("tickets", "update_ticket", {"id": "T-1", "status": 5})))


async def test_a_tool_changed_since_planning_stops_the_apply(stand: Stand) -> None:
    planned = await stand.propose(closing())
    changed = tuple(
        msgspec.structs.replace(tool, digest="other") if tool.name == "add_comment" else tool
        for tool in tickets().tools
    )
    newer = Catalogue(8, (msgspec.structs.replace(tickets(), tools=changed), graph(), files()))
    stand.registry.catalogue = newer
    report = await stand.apply(planned.id)
    assert report.state is DeltaState.REFUSED
    assert report.reason.startswith("tickets.add_comment changed since")
    assert stand.world.writes == []


async def test_a_stricter_mode_since_planning_needs_a_new_plan(stand: Stand) -> None:
    planned = await stand.propose(closing())
    stand.registry.catalogue = Catalogue(8, (tickets(Mode.ASK), graph(), files()))
    report = await stand.apply(planned.id)
    assert report.state is DeltaState.REFUSED
    assert "needs a person" in report.reason


async def test_a_program_can_be_ended_by_the_name_that_was_proposed_for_it(stand: Stand) -> None:
    name = new_delta_id()
    begin = Begin("c1", "slow", "{}", 7, 0, 0, proposed=name)
    begun = await stand.client.ask(begin)
    assert begun.delta == name
    with pytest.raises(Conflict, match=name):
        await stand.client.ask(msgspec.structs.replace(begin, code="another"))
    await stand.client.ask(Abandon(name, "the client cancelled"))
    repeated = await stand.client.ask(msgspec.structs.replace(begin, proposed=new_delta_id()))
    assert repeated.repeated is None, "nobody waits for a program that was ended"
    with pytest.raises(Conflict, match=name):
        await stand.client.ask(msgspec.structs.replace(begin, code="another"))
    with pytest.raises(Invalid, match="no name of a delta"):
        await stand.client.ask(msgspec.structs.replace(begin, proposed="d_../../etc"))


async def test_of_two_equal_programs_that_begin_together_one_is_the_others_repeat(stand: Stand) -> None:
    begin = Begin("c1", "twins", "{}", 7, 0, 0)
    begun: list[Any] = []

    async def ask() -> None:
        begun.append(await stand.client.ask(begin))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        with trio.fail_after(20):
            while not begun:
                await trio.sleep(0.01)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(begun) == 1
        await stand.client.ask(Propose(begun[0].delta, build_plan(closing(), catalogue()), Value(b"1")))
        await stand.apply(begun[0].delta)
    assert [each.repeated is None for each in begun] == [True, False]

"""The journal under real links, with a registry that serves a model store."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from delta_actors.journal import JournalActor
from delta_actors.runtime import Actor, Context, open_actors
from delta_actors.runtime.refs import ActorRef
from delta_protocol.answers.report import facts
from delta_protocol.catalogue.model import Catalogue, Mode
from delta_protocol.changes.holes import pack, reference
from delta_protocol.changes.model import CallState, DeltaState, EntityChange, EntityRef, Read, Recording, Value, Write
from delta_protocol.changes.plan import build_plan, sealed
from delta_protocol.codecs import exact_json
from delta_protocol.config import LimitsConfig, StackConfig
from delta_protocol.errors import Invalid, NotFound, Refused
from delta_protocol.wire.journal import (
    Abandon,
    Apply,
    Approve,
    Begin,
    Decline,
    DeltaReport,
    GetDelta,
    ListDeltas,
    Propose,
    Replan,
    Settle,
    Undo,
)
from delta_protocol.wire.message import Principal, Role
from tests.changes.catalogues import catalogue, files, graph, tickets
from tests.journal.world import TICKET, FakeRegistry, World

EVA = Principal("eva", "token")
NULL = Value(b"null")


class Stand:
    """A journal, the world behind it, and who asks."""

    def __init__(self, system: Any, registry: FakeRegistry) -> None:
        self.system = system
        self.registry = registry
        self.world = registry.world
        self.client: ActorRef = system.ref(Role.JOURNAL, as_=Role.TRANSPORT, principal=EVA)
        self.operator: ActorRef = system.ref(Role.JOURNAL, as_=Role.OPERATOR)

    async def propose(
        self, recording: Recording, *, code: str = "x", returned: Value = NULL, **more: Any
    ) -> DeltaReport:
        with trio.fail_after(20):
            begun = await self.client.ask(Begin("c1", code, "{}", 7, 0, 0, again=True))
            plan = build_plan(recording, self.registry.older[7])
            return await self.client.ask(Propose(begun.delta, plan, returned, **more))

    async def apply(self, delta: str, seconds: float = 20) -> DeltaReport:
        with trio.fail_after(seconds):
            return await self.client.ask(Apply(delta))

    async def done(self, recording: Recording, **more: Any) -> DeltaReport:
        return await self.apply((await self.propose(recording, **more)).id)

    async def undo(self, delta: str, *force: str) -> DeltaReport:
        with trio.fail_after(20):
            return await self.client.ask(Undo(delta, force))

    async def get(self, delta: str) -> DeltaReport:
        with trio.fail_after(20):
            return await self.client.ask(GetDelta(delta))


@asynccontextmanager
async def standing(
    folder: Path, world: World | None = None, snapshot: Catalogue | None = None, **limits: Any
) -> AsyncIterator[Stand]:
    registry = FakeRegistry(world or World(), snapshot)
    config = StackConfig(limits=LimitsConfig(**limits))
    actors: dict[str, Callable[[], Actor]] = {Role.REGISTRY: lambda: registry, Role.JOURNAL: JournalActor}
    async with open_actors(actors, config=config, state_dir=folder) as system:
        yield Stand(system, registry)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as stand:
        yield stand


def ticket(after: dict[str, Any], before: dict[str, Any] = TICKET) -> EntityChange:
    entity = EntityRef("tickets", "ticket", b'"T-1"')
    return EntityChange(entity, exact_json.encode(before), pack(before | after), (), 1, read_fields=("title",))


def closing() -> Recording:
    comments = [*TICKET["comments"], {"body": "Closed: fixed in 2.3"}]
    return Recording((ticket({"status": "closed", "labels": ["bug", "late"], "comments": comments}),))


def writes(*calls: tuple[str, str, dict[str, Any]], **more: Any) -> Recording:
    return Recording(
        writes=tuple(
            Write(number, connector, tool, pack(arguments), seq=number, line=number, **more)
            for number, (connector, tool, arguments) in enumerate(calls, 1)
        ),
    )


async def test_the_ticket_task_is_applied_read_back_and_undone(stand: Stand) -> None:
    report = await stand.done(closing(), returned=Value(b'"Login broken"'))
    assert report.state is DeltaState.APPLIED
    assert [tool for tool, _ in stand.world.writes] == ["update_ticket", "add_comment"]
    assert (len(report.calls), report.verified, report.undoable) == (2, 2, 2)
    assert report.returned == b'"Login broken"'
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.APPLIED
    assert undo.undo_of == report.id
    assert stand.world.tickets == {"T-1": TICKET}
    first = await stand.get(report.id)
    assert (first.state, first.undone_by) == (DeltaState.UNDONE, undo.id)
    with pytest.raises(Refused, match="nothing to undo"):
        await stand.undo(report.id)


async def test_undoing_an_undo_is_redoing(stand: Stand) -> None:
    report = await stand.done(Recording((ticket({"status": "closed"}),)))
    undo = await stand.undo(report.id)
    redo = await stand.undo(undo.id)
    assert redo.state is DeltaState.APPLIED
    assert stand.world.tickets["T-1"]["status"] == "closed"


async def test_64_bit_integers_stay_exact_through_apply_and_undo(stand: Stand) -> None:
    report = await stand.done(Recording((ticket({"big": 1917043659912705297}),)))
    assert stand.world.tickets["T-1"]["big"] == 1917043659912705297
    await stand.undo(report.id)
    assert stand.world.tickets["T-1"]["big"] == 1917043659912705296


async def test_each_idempotency_key_names_delta_call_and_arguments(stand: Stand) -> None:
    report = await stand.done(closing())
    names = [key.rsplit(":", 1) for key in stand.world.keys]
    assert [name for name, _ in names] == [f"{report.id}:1.1", f"{report.id}:1.2"]
    assert all(len(digest) == 64 for _, digest in names)


@pytest.mark.parametrize("fails_at", [1, 2])
@pytest.mark.parametrize("fault", ["fails", "refused", "silent"])
async def test_a_failure_takes_back_what_was_made(stand: Stand, fails_at: int, fault: str) -> None:
    stand.world.faults[fails_at] = fault
    before = stand.world.state()
    if fault == "silent" and fails_at == 1:
        # An update that is seen not to have been made is sent once more.
        report = await stand.done(closing())
        assert report.state is DeltaState.APPLIED
        return
    report = await stand.done(closing())
    assert report.state is DeltaState.ROLLED_BACK
    assert report.reason.startswith(f"call {fails_at} failed: tickets.")
    assert stand.world.state() == before
    assert all(call.state is not CallState.VERIFIED for call in report.calls)


async def test_a_lost_answer_is_settled_by_reading_and_never_sent_twice(stand: Stand) -> None:
    stand.world.faults[2] = "commits silently"
    report = await stand.done(closing())
    assert report.state is DeltaState.APPLIED
    assert [comment["body"] for comment in stand.world.tickets["T-1"]["comments"]] == ["hm", "Closed: fixed in 2.3"]
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.APPLIED
    assert stand.world.tickets == {"T-1": TICKET}


async def test_a_create_whose_answer_is_lost_is_unknown_and_made_once(stand: Stand) -> None:
    stand.world.faults[1] = "commits silently"
    report = await stand.done(writes(("tickets", "create_ticket", {"title": "New"})))
    assert report.state is DeltaState.UNKNOWN
    assert "call 1" in report.reason
    assert len(stand.world.tickets) == 2


async def test_a_create_that_says_ok_and_does_nothing_is_rolled_back(stand: Stand) -> None:
    stand.world.faults[2] = "lies"
    report = await stand.done(closing())
    assert report.state is DeltaState.ROLLED_BACK
    assert stand.world.tickets == {"T-1": TICKET}


async def test_what_is_stored_differently_is_said(stand: Stand) -> None:
    stand.world.faults[1] = "normalises"
    report = await stand.done(Recording((ticket({"status": "closed"}),)))
    assert (report.state, report.verified, report.differs) == (DeltaState.APPLIED, 0, 1)
    assert report.calls[0].detail == "status: wanted closed, got CLOSED"
    await stand.undo(report.id)
    assert stand.world.tickets == {"T-1": TICKET}


async def test_a_busy_connector_is_waited_for(stand: Stand) -> None:
    stand.world.faults[1] = "busy"
    report = await stand.done(closing())
    assert report.state is DeltaState.APPLIED
    assert [tool for tool, _ in stand.world.writes] == ["update_ticket", "update_ticket", "add_comment"]


async def test_a_change_between_plan_and_apply_stops_everything(stand: Stand) -> None:
    planned = await stand.propose(closing())
    stand.world.tickets["T-1"]["status"] = "in review"
    report = await stand.apply(planned.id)
    assert report.state is DeltaState.REFUSED
    assert stand.world.writes == []
    (conflict,) = report.conflicts
    assert (conflict.entity, conflict.field, conflict.was, conflict.now, conflict.wanted) == (
        "T-1",
        "status",
        b'"open"',
        b'"in review"',
        b'"closed"',
    )


async def test_undo_keeps_what_somebody_else_changed_unless_forced(stand: Stand) -> None:
    report = await stand.done(Recording((ticket({"status": "closed", "title": "Fixed"}),)))
    stand.world.tickets["T-1"]["status"] = "in review"
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.APPLIED
    assert [(kept.field, kept.now) for kept in undo.conflicts] == [("status", b'"in review"')]
    assert stand.world.tickets["T-1"] | {"status": "open"} == TICKET
    assert (await stand.get(report.id)).state is DeltaState.PARTLY_UNDONE
    again = await stand.undo(report.id, "T-1.status")
    assert again.state is DeltaState.APPLIED
    assert stand.world.tickets == {"T-1": TICKET}
    assert (await stand.get(report.id)).state is DeltaState.UNDONE


async def test_undo_of_only_foreign_changes_changes_nothing(stand: Stand) -> None:
    report = await stand.done(Recording((ticket({"status": "closed"}),)))
    stand.world.tickets["T-1"]["status"] = "in review"
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.REFUSED
    assert undo.reason == "changed since by someone else: T-1.status"
    assert (await stand.get(report.id)).state is DeltaState.APPLIED


async def test_files_come_back_from_before_images_and_a_new_one_is_announced(stand: Stand) -> None:
    stand.world.files |= {"a.txt": "one two", "b.txt": "old"}
    edits = {"path": "a.txt", "edits": [{"oldText": "two", "newText": "2"}]}
    recording = writes(("files", "edit_file", edits), ("files", "write_file", {"path": "b.txt", "content": "new"}))
    report = await stand.done(recording)
    assert (report.state, report.verified, report.undoable) == (DeltaState.APPLIED, 2, 2)
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.APPLIED
    assert stand.world.files == {"a.txt": "one two", "b.txt": "old"}
    planned = await stand.propose(writes(("files", "write_file", {"path": "c.txt", "content": "new"})))
    assert planned.state is DeltaState.WAITING
    assert "undo: NO, no tool deletes what write_file makes" in planned.card


async def test_entities_and_relations_are_made_in_batches_and_undone(stand: Stand) -> None:
    people = [{"name": name, "entityType": "person", "observations": []} for name in "ab"]
    relation = {"from": "a", "to": "b", "relationType": "knows"}
    recording = writes(
        ("graph", "create_entities", {"entities": people}), ("graph", "create_relations", {"relations": [relation]})
    )
    report = await stand.done(recording)
    assert (report.state, report.verified) == (DeltaState.APPLIED, 2)
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.APPLIED
    assert stand.world.entities == {}
    assert stand.world.relations == []


async def test_results_fill_later_calls_and_the_returned_value(stand: Stand) -> None:
    recording = writes(
        ("tickets", "create_ticket", {"title": "New"}),
        ("tickets", "add_comment", {"id": reference(1, ("id",)), "body": "first"}),
    )
    report = await stand.done(recording, returned=pack({"made": reference(1, ("id",))}))
    assert report.state is DeltaState.APPLIED
    assert report.returned is not None
    made = json.loads(report.returned)["made"]
    assert stand.world.tickets[made]["comments"][0]["body"] == "first"
    undo = await stand.undo(report.id)
    assert undo.state is DeltaState.APPLIED, undo
    assert stand.world.tickets == {"T-1": TICKET}


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("there is no ticket {}", CallState.VERIFIED),
        ("{!r} is no ticket id; they look like T-1", CallState.VERIFIED),
        ("403: you may not see {}, missing permission", CallState.UNVERIFIABLE),
    ],
)
@pytest.mark.parametrize("fault", ["", "commits silently"])
async def test_a_deletion_is_read_back_from_the_readers_error(
    stand: Stand, words: str, seen: CallState, fault: str
) -> None:
    report = await stand.done(writes(("tickets", "create_ticket", {"title": "New"})))
    stand.world.absent = words
    stand.world.faults[2] = fault
    undo = await stand.undo(report.id)
    assert list(stand.world.tickets) == ["T-1"]
    if fault and seen is CallState.UNVERIFIABLE:
        assert undo.state is DeltaState.UNKNOWN
    else:
        assert (undo.state, undo.calls[0].state) == (DeltaState.APPLIED, seen)


async def test_a_page_has_the_same_figures_as_the_deltas_themselves(stand: Stand) -> None:
    made = await stand.done(
        writes(("tickets", "create_ticket", {"title": "New"})), returned=pack({"made": reference(1, ("id",))})
    )
    closed = await stand.done(closing(), code="2")
    listed = (await stand.client.ask(ListDeltas())).deltas
    assert [each.id for each in listed] == [closed.id, made.id]
    for page, whole in zip(listed, (closed, made), strict=True):
        assert page.calls == ()
        assert facts(page) == facts(whole)
        assert page.returned == whole.returned
    assert facts(listed[0]) == {
        "id": closed.id,
        "state": "applied",
        "calls": 2,
        "read_back": {"verified": 2, "differs": 0, "unverifiable": 0},
        "undo": {"possible": 2, "of": 2},
    }


async def test_a_catalogue_is_fetched_once(stand: Stand) -> None:
    for number in range(3):
        report = await stand.done(Recording((ticket({"status": "closed"}),)), code=str(number))
        await stand.undo(report.id)
    assert stand.registry.fetched == [7]
    stand.registry.catalogue = Catalogue(8, stand.registry.catalogue.connectors)
    await stand.done(closing())
    assert stand.registry.fetched == [7, 8]


class Refusing(FakeRegistry):
    """Cannot start."""

    async def start(self, context: Context) -> tuple[str, ...]:
        while not (context.state_dir / "journal.db").exists():
            await trio.sleep(0)
        raise Refused("no")


async def test_recovery_ends_quietly_when_another_actor_cannot_start(tmp_path: Path) -> None:
    actors: dict[str, Callable[[], Actor]] = {Role.REGISTRY: lambda: Refusing(World()), Role.JOURNAL: JournalActor}
    for _ in range(5):
        with pytest.RaisesGroup(Refused, flatten_subgroups=True):
            async with open_actors(actors, state_dir=tmp_path):
                pytest.fail("started")


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


async def test_secrets_are_nowhere_in_what_is_stored(tmp_path: Path) -> None:
    (collection,) = tickets().collections
    assert collection.update is not None
    binding = msgspec.structs.replace(collection.update, fields={**collection.update.fields, "api_token": "api_token"})
    known = tuple(_with_token(tool) if tool.name == "update_ticket" else tool for tool in tickets().tools)
    changed = (msgspec.structs.replace(collection, update=binding),)
    connector = msgspec.structs.replace(tickets(Mode.FULL), tools=known, collections=changed)
    secret = "hunter2-is-a-secret"
    async with standing(tmp_path, snapshot=Catalogue(7, (connector,))) as stand:
        stand.world.tickets["T-1"]["api_token"] = "the-old-secret"
        before = TICKET | {"api_token": "the-old-secret"}
        code = f"t.api_token = '{secret}'; t.title = 'uses {secret}'"
        recording = Recording(
            (ticket({"api_token": secret, "title": f"uses {secret}"}, before),),
            reads=(Read("tickets", "get_ticket", b'{"id":"T-1"}', 1, exact_json.encode(before)),),
        )
        report = await stand.done(recording, code=code, reads=recording.reads)
        assert report.state is DeltaState.APPLIED
        assert stand.world.tickets["T-1"]["api_token"] == secret
        page = await stand.operator.ask(GetDelta(report.id))
        with pytest.raises(Refused, match="not kept whole"):
            await stand.client.ask(Replan(report.id))
    import sqlite3
    import zlib

    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    with sqlite3.connect(tmp_path / "journal.db") as db:
        rows = [
            value
            for table in ("delta", "call", "event")
            for row in db.execute(f"SELECT * FROM {table}")
            for value in row
        ]
    db.close()
    stored += b"".join(zlib.decompress(value) for value in rows if isinstance(value, bytes) and value[:1] == b"x")
    stored += msgspec.json.encode(page)
    for planted in (secret, "the-old-secret"):
        assert planted.encode() not in stored


def _with_token(tool: Any) -> Any:
    schema = json.loads(tool.input_schema)
    schema["properties"]["api_token"] = {"type": "string"}
    return msgspec.structs.replace(tool, input_schema=json.dumps(schema).encode())


async def test_the_file_is_private(stand: Stand, tmp_path: Path) -> None:
    await stand.done(closing())
    for path in tmp_path.glob("journal.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


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

"""Changes applied, read back, taken back and undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from delta_actors.journal import JournalActor
from delta_actors.runtime import Actor, Context, open_actors
from delta_protocol.answers.report import facts
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.holes import pack, reference
from delta_protocol.changes.model import CallState, DeltaState, Recording, Value
from delta_protocol.errors import Refused
from delta_protocol.wire.journal import (
    ListDeltas,
)
from delta_protocol.wire.message import Role
from tests.journal.stand import Stand, closing, ticket, writes
from tests.journal.world import TICKET, FakeRegistry, World


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


async def test_what_cannot_be_read_again_is_refused_with_what_the_connector_said(stand: Stand) -> None:
    planned = await stand.propose(closing())
    stand.world.blind = True
    report = await stand.apply(planned.id)
    assert (report.state, stand.world.writes) == (DeltaState.REFUSED, [])
    assert "could not be read again (tickets: " in report.reason
    assert "503 unavailable" in report.reason


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

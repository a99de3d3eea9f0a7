"""What becomes of a program's changes: the fewest calls, in order, each with its way back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from delta_protocol.catalogue.model import (
    Binding,
    Catalogue,
    Collection,
    Connector,
    ConnectorState,
    Effect,
    Elements,
    Mode,
)
from delta_protocol.changes.holes import pack, reference
from delta_protocol.changes.images import NOTHING
from delta_protocol.changes.model import (
    EntityChange,
    EntityRef,
    Mutation,
    Op,
    Plan,
    Read,
    Recording,
    Reversibility,
    Value,
    Write,
)
from delta_protocol.changes.plan import build_plan, completed, place, plan_hash, sealed, verify
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from tests.changes.catalogues import STRING, catalogue, tickets, tool
from tests.changes.model_store import looked_up
from tests.journal.world import World

T1 = {
    "id": "T-1",
    "title": "Login broken",
    "status": "open",
    "labels": ["bug"],
    "assignee": None,
    "comments": [{"id": 1, "body": "hm"}],
    "big": 1917043659912705296,
}


def ticket_change(after: dict[str, Any], *, before: dict[str, Any] = T1, seq: int = 1, **more: Any) -> EntityChange:
    entity = EntityRef("tickets", "ticket", b'"T-1"')
    mutations = (Mutation(Op.SET, ("nope",), line=4),)
    return EntityChange(entity, exact_json.encode(before), pack(after), mutations, seq, line=3, **more)


def write(number: int, tool: str, arguments: dict[str, Any], connector: str = "tickets", **more: Any) -> Write:
    return Write(number, connector, tool, pack(arguments), seq=number * 10, line=number, **more)


def calls(plan: Plan) -> list[tuple[str, Any]]:
    return [(call.tool, json.loads(call.arguments.json)) for call in plan.calls]


def planned(*changes: EntityChange, writes: tuple[Write, ...] = (), reads: tuple[Read, ...] = ()) -> Plan:
    plan = build_plan(Recording(changes, writes, reads), catalogue())
    verify(plan, catalogue())
    assert plan.hash == plan_hash(plan)
    return plan


def test_the_ticket_task_is_two_calls() -> None:
    after = T1 | {
        "status": "closed",
        "labels": ["bug", "late"],
        "comments": [*T1["comments"], {"body": "Closed: fixed in 2.3"}],  # type: ignore[misc]
    }
    plan = planned(ticket_change(after))
    assert calls(plan) == [
        ("update_ticket", {"id": "T-1", "status": "closed", "labels": ["bug", "late"]}),
        ("add_comment", {"id": "T-1", "body": "Closed: fixed in 2.3"}),
    ]
    update, comment = plan.calls
    assert (update.reversibility, comment.reversibility) == (Reversibility.R1, Reversibility.R0)
    assert update.words == "T-1: status open → closed, labels +late"
    assert update.inverse is not None
    assert json.loads(update.inverse.arguments.json) == {
        "id": "T-1",
        "status": "open",
        "labels": ["bug"],
    }
    assert comment.inverse is not None
    assert comment.inverse.tool == "delete_comment"
    assert comment.inverse.arguments == pack({"id": "T-1", "comment_id": reference(2, ("id",))})
    (precondition,) = plan.preconditions
    assert set(precondition.fields) == {"status", "labels", "comments"}


def test_what_is_set_back_makes_no_call() -> None:
    assert calls(planned(ticket_change(dict(T1)))) == []


def test_64_bit_integers_stay_exact() -> None:
    plan = planned(ticket_change(T1 | {"big": 1917043659912705297}))
    assert b"1917043659912705297" in plan.calls[0].arguments.json
    assert plan.calls[0].inverse is not None
    assert b"1917043659912705296" in plan.calls[0].inverse.arguments.json


def test_a_field_no_tool_sets_is_named_with_its_line() -> None:
    with pytest.raises(Invalid, match=r"^`nope` of a ticket cannot be set.*`status`"):
        planned(ticket_change(T1 | {"nope": 1}))


def test_an_array_from_a_partial_list_is_not_set_whole() -> None:
    with pytest.raises(Invalid, match="only part of it"):
        planned(ticket_change(T1 | {"labels": ["x"]}, complete=False))


def test_removing_a_keyed_element_takes_its_tool_and_comes_back_as_a_new_one() -> None:
    plan = planned(ticket_change(T1 | {"comments": []}))
    assert calls(plan) == [("delete_comment", {"id": "T-1", "comment_id": 1})]
    assert plan.calls[0].reversibility is Reversibility.R2


def test_a_created_entity_takes_later_changes_into_its_creation() -> None:
    changes = (
        Mutation(Op.SET, ("status",), pack("open"), line=2),
        Mutation(Op.SET, ("comments",), pack([{"body": "first"}]), line=3),
        Mutation(Op.SET, ("assignee",), pack("eva"), line=4),
    )
    made = write(1, "create_ticket", {"title": "New"}, operation="create", changes=changes)
    plan = planned(writes=(made,))
    assert calls(plan) == [
        ("create_ticket", {"title": "New", "status": "open"}),
        ("update_ticket", {"id": None, "assignee": "eva"}),
        ("add_comment", {"id": None, "body": "first"}),
    ]
    assert plan.calls[1].arguments == pack({"id": reference(1, ("id",)), "assignee": "eva"})
    assert plan.calls[0].inverse is not None
    assert plan.calls[0].inverse.tool == "delete_ticket"


def test_created_and_deleted_again_is_nothing() -> None:
    made = write(1, "create_ticket", {"title": "New"}, operation="create")
    gone = write(2, "delete_ticket", {"id": reference(1, ("id",))}, operation="delete")
    assert calls(planned(writes=(made, gone))) == []


def test_a_deleted_entity_loses_its_other_changes_and_can_be_made_again() -> None:
    entity = EntityRef("tickets", "ticket", b'"T-1"')
    gone = write(1, "delete_ticket", {"id": "T-1"}, operation="delete", entity=entity, before=exact_json.encode(T1))
    plan = planned(ticket_change(T1 | {"status": "x"}), writes=(gone,))
    assert calls(plan) == [("delete_ticket", {"id": "T-1"})]
    assert plan.calls[0].reversibility is Reversibility.R2
    assert plan.calls[0].inverse is not None
    assert json.loads(plan.calls[0].inverse.arguments.json) == {
        "title": T1["title"],
        "status": "open",
        "labels": ["bug"],
    }


def test_creates_of_one_collection_join_where_the_tool_takes_many() -> None:
    entities = [{"name": name, "entityType": "person", "observations": []} for name in "ab"]
    made = tuple(
        write(index, "create_entities", {"entities": [each]}, "graph", operation="create")
        for index, each in enumerate(entities, 1)
    )
    related = write(
        3,
        "create_relations",
        {"relations": [{"from": reference(1, (0, "name")), "to": reference(2, (0, "name")), "relationType": "knows"}]},
        "graph",
        operation="create",
    )
    plan = planned(writes=(*made, related))
    assert [tool for tool, _ in calls(plan)] == ["create_entities", "create_relations"]
    assert calls(plan)[0][1] == {"entities": entities}
    assert plan.calls[0].inverse is None, "they may have been there already"
    plan = looked_up(plan, catalogue(), World())
    assert plan.calls[0].inverse is not None
    assert json.loads(plan.calls[0].inverse.arguments.json) == {"entityNames": ["a", "b"]}
    hole = plan.calls[1].arguments.holes[1]
    assert hole.parts == reference(1, (1, "name")).parts
    assert plan.calls[1].reversibility is Reversibility.R0
    returned = place(pack({"who": reference(2, (0, "name"))}), plan)
    assert returned == pack({"who": reference(1, (1, "name"))})


def test_direct_calls_stay_exactly_as_called_and_get_the_same_way_back() -> None:
    plan = planned(
        writes=(
            write(1, "update_ticket", {"id": "T-1", "status": "closed"}),
            write(2, "update_ticket", {"id": "T-1", "status": "open"}),
        ),
        reads=(Read("tickets", "get_ticket", b'{"id":"T-1"}', 1, exact_json.encode(T1)),),
    )
    assert calls(plan) == [
        ("update_ticket", {"id": "T-1", "status": "closed"}),
        ("update_ticket", {"id": "T-1", "status": "open"}),
    ]
    assert all(call.reversibility is Reversibility.R1 and not call.before_from for call in plan.calls)


def test_an_unread_file_asks_for_its_before_image_and_learns_from_it() -> None:
    plan = planned(
        writes=(
            write(1, "edit_file", {"path": "a.txt", "edits": []}, "files"),
            write(2, "write_file", {"path": "new.txt", "content": "x"}, "files"),
        )
    )
    assert all(call.before_from for call in plan.calls)
    learned = [
        (EntityRef("files", "file", b'"a.txt"'), {"content": "old"}),
        (EntityRef("files", "file", b'"new.txt"'), NOTHING),
    ]
    full = completed(plan, catalogue(), learned)
    verify(full, catalogue())
    edit = next(call for call in full.calls if call.tool == "edit_file")
    new = next(call for call in full.calls if call.tool == "write_file")
    assert edit.reversibility is Reversibility.R1
    assert edit.inverse is not None
    assert json.loads(edit.inverse.arguments.json) == {"path": "a.txt", "content": "old"}
    assert new.irreversible_because == "no tool deletes what write_file makes"
    assert {p.before for p in full.preconditions} == {b'{"content":"old"}', b"null"}


def test_what_cannot_be_taken_back_comes_last_where_nothing_forbids_it() -> None:
    plan = build_plan(
        Recording(
            (ticket_change(T1 | {"status": "x"}, seq=5),),
            (write(1, "send_mail", {"to": "a", "text": "b"}, "graph2"),),
        ),
        catalogue(tickets(), _mailer()),
    )
    assert [call.tool for call in plan.calls] == ["update_ticket", "send_mail"]
    assert plan.calls[1].irreversible_because == "nothing is known that takes send_mail back"


def _mailer() -> Any:
    return msgspec.structs.replace(tickets(), name="graph2", collections=())


def test_a_plan_that_was_tampered_with_is_refused() -> None:
    plan = planned(ticket_change(T1 | {"status": "closed"}))
    call = msgspec.structs.replace(plan.calls[0], reversibility=Reversibility.R0)
    with pytest.raises(Invalid, match="do not follow"):
        verify(sealed(msgspec.structs.replace(plan, calls=(call,))), catalogue())
    with pytest.raises(Invalid, match="hash"):
        verify(msgspec.structs.replace(plan, calls=(call,)), catalogue())
    read = msgspec.structs.replace(plan.calls[0], tool="get_ticket", arguments=Value(b'{"id":"T-1"}'))
    with pytest.raises(Invalid, match="cannot be planned"):
        verify(sealed(msgspec.structs.replace(plan, calls=(read,))), catalogue())


def test_a_secret_field_is_not_undoable_and_never_in_words() -> None:
    connector = tickets()
    (collection,) = connector.collections
    assert collection.update is not None
    binding = msgspec.structs.replace(collection.update, fields={**collection.update.fields, "api_token": "api_token"})
    changed = msgspec.structs.replace(connector, collections=(msgspec.structs.replace(collection, update=binding),))
    change = ticket_change(T1 | {"api_token": "hunter2!"}, before=T1 | {"api_token": "hunter1!"})
    plan = build_plan(Recording((change,)), catalogue(changed))
    (call,) = plan.calls
    assert call.inverse is None
    assert call.irreversible_because == "`api_token` is a secret: what it was is not kept"
    assert "hunter" not in call.words


OBSERVATIONS = Elements(
    "observations",
    add=Binding("add_facts", key="entityName", fields={"": "contents"}, many=True, wrapper="facts"),
    remove=Binding("delete_facts", key="entityName", many=True, wrapper="deletions"),
    remove_key="facts",
)


def notes() -> Catalogue:
    tools = (
        tool("get_node", Effect.READ, {"name": STRING}, ("name",)),
        tool("add_facts", Effect.WRITE, {"facts": {"type": "array"}}),
        tool("delete_facts", Effect.WRITE, {"deletions": {"type": "array"}}),
    )
    node = Collection("node", "node", "name", get=Binding("get_node", key="name"), elements=(OBSERVATIONS,))
    return Catalogue(7, (Connector("notes", ConnectorState.READY, Mode.SAFE, tools, (node,)),))


def wrapped_change(before: list[str], after: list[str]) -> Plan:
    of = notes()
    was, now = ({"name": "Ada", "observations": facts} for facts in (before, after))
    ada = EntityRef("notes", "node", b'"Ada"')
    change = EntityChange(ada, exact_json.encode(was), pack(now), (), 1, line=1, complete=True)
    plan = build_plan(Recording((change,), (), ()), of)
    verify(plan, of)
    return plan


def test_elements_whose_tools_wrap_them_in_a_list_are_added_removed_and_taken_back() -> None:
    plan = wrapped_change(["a", "b"], ["b", "c", "d"])
    added = ("add_facts", {"facts": [{"entityName": "Ada", "contents": ["c", "d"]}]})
    removed = ("delete_facts", {"deletions": [{"entityName": "Ada", "facts": ["a"]}]})
    assert calls(plan) == [removed, added]
    back = [(call.inverse.tool, json.loads(call.inverse.arguments.json)) for call in plan.calls if call.inverse]
    assert back == [
        ("add_facts", {"facts": [{"entityName": "Ada", "contents": ["a"]}]}),
        ("delete_facts", {"deletions": [{"entityName": "Ada", "facts": ["c", "d"]}]}),
    ]
    assert all(call.read_back for call in plan.calls)


def test_adding_what_is_there_already_is_not_undone_by_taking_it_away() -> None:
    plan = wrapped_change(["a"], ["a", "a"])
    assert [call.inverse for call in plan.calls] == [None]
    assert "held it before" in (plan.calls[0].irreversible_because or "")


ADDED = write(1, "add_facts", {"facts": [{"entityName": "Ada", "contents": ["b"]}]}, "notes")
ADA = EntityRef("notes", "node", b'"Ada"')


def test_an_element_that_was_added_unread_is_taken_back_only_where_it_was_seen_to_be_absent() -> None:
    plan = build_plan(Recording((), (ADDED,)), notes())
    (call,) = plan.calls
    assert call.inverse is None, "it may have been there already"
    assert call.before_from, "a look before the call decides"
    images: list[tuple[Any, bool]] = [
        ({"name": "Ada", "observations": ["a"]}, True),
        ({"name": "Ada", "observations": None}, True),
        (NOTHING, True),
        ({"name": "Ada", "observations": ["a", "b"]}, False),
        ({"name": "Ada"}, False),
        ({"name": "Ada", "observations": "b"}, False),
    ]
    for image, kept in images:
        full = completed(plan, notes(), [(ADA, image)])
        verify(full, notes())
        assert (full.calls[0].inverse is not None) is kept, image


def test_an_element_that_the_answer_names_is_taken_back_without_a_look() -> None:
    plan = planned(writes=(write(1, "add_comment", {"id": "T-1", "body": "hm"}),))
    (call,) = plan.calls
    assert call.inverse is not None
    assert not call.before_from
    assert call.inverse.arguments.holes[0].parts == reference(1, ("id",)).parts

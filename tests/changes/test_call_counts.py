"""I9 of plan-apply-undo 5.17: a plan makes no more calls than a minimal script written by hand, to the same end."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from delta_protocol.changes.holes import pack, reference
from delta_protocol.changes.model import DeltaState, EntityChange, EntityRef, Mutation, Op, Read, Recording, Write
from delta_protocol.changes.plan import build_plan, completed, verify
from delta_protocol.codecs import exact_json
from tests.changes.catalogues import catalogue
from tests.changes.model_store import Driver, machine
from tests.journal.world import World

Call = tuple[str, dict[str, Any]]
Script = list[Call | Callable[[list[Any]], Call]]
"""Calls in order; one made from the results of those before it is a function of them."""

COMMENT = {"id": 1, "body": "hm"}
KNOWS = {"from": "a", "to": "b", "relationType": "knows"}


def world() -> World:
    """Three tickets, two files, two people who know each other."""
    made = World()
    for key in ("T-2", "T-3"):
        made.tickets[key] = copy.deepcopy(made.tickets["T-1"]) | {"id": key, "comments": []}
    made.files |= {"a.txt": "one two", "b.txt": "old"}
    made.entities |= {name: {"name": name, "entityType": "person", "observations": []} for name in "ab"}
    made.relations.append(KNOWS)
    return made


def ticket(number: int, seq: int = 1, **after: Any) -> EntityChange:
    """Set fields of a ticket that the program read."""
    before = world().tickets[f"T-{number}"]
    entity = EntityRef("tickets", "ticket", exact_json.encode(f"T-{number}"))
    return EntityChange(entity, exact_json.encode(before), pack(before | after), (), seq)


def file(path: str, content: str, seq: int = 1) -> EntityChange:
    """Set the content of a file that the program read."""
    entity = EntityRef("files", "file", exact_json.encode(path))
    before = {"content": world().files[path]}
    return EntityChange(entity, exact_json.encode(before), pack({"content": content}), (), seq)


def write(number: int, tool: str, arguments: dict[str, Any], **more: Any) -> Write:
    """Call a tool by name, or create or delete through a collection."""
    graph = tool.endswith(("entities", "relations"))
    connector = "graph" if graph else "files" if tool.endswith("_file") else "tickets"
    return Write(number, connector, tool, pack(arguments), seq=number * 10, line=number, **more)


def create(number: int, title: str, *changes: Mutation, **more: Any) -> Write:
    """`tickets.ticket.create`, with what was changed of the new ticket afterwards."""
    arguments = {"title": title, **more}
    return write(number, "create_ticket", arguments, operation="create", changes=changes)


def delete(number: int, key: int, *, read: bool = True) -> Write:
    """`tickets.ticket.delete`."""
    before = exact_json.encode(world().tickets[f"T-{key}"]) if read else None
    entity = EntityRef("tickets", "ticket", exact_json.encode(f"T-{key}"))
    arguments = {"id": f"T-{key}"}
    return write(number, "delete_ticket", arguments, operation="delete", entity=entity, before=before)


def person(number: int, name: str) -> Write:
    """`graph.entity.create`."""
    made = {"name": name, "entityType": "person", "observations": []}
    return write(number, "create_entities", {"entities": [made]}, operation="create")


def relation(number: int, start: Any, end: Any) -> Write:
    """`graph.relation.create`."""
    made = {"from": start, "to": end, "relationType": "knows"}
    return write(number, "create_relations", {"relations": [made]}, operation="create")


def people(*names: str) -> list[Any]:
    return [{"name": name, "entityType": "person", "observations": []} for name in names]


def update(number: int, **fields: Any) -> Call:
    return "update_ticket", {"id": f"T-{number}", **fields}


def comment(number: int, body: str) -> Call:
    return "add_comment", {"id": f"T-{number}", "body": body}


def setting(field: str, value: Any) -> Mutation:
    return Mutation(Op.SET, (field,), pack(value), line=1)


@dataclass(frozen=True)
class Task:
    """What a program asked for, and the calls that somebody would write by hand."""

    name: str
    asked: list[EntityChange | Write]
    script: Script
    reads: tuple[Read, ...] = ()

    def recording(self) -> Recording:
        changes = tuple(each for each in self.asked if isinstance(each, EntityChange))
        return Recording(changes, tuple(each for each in self.asked if isinstance(each, Write)), self.reads)


FILES_READ = tuple(
    Read("files", "read_text_file", exact_json.encode({"path": path}), 1, exact_json.encode({"content": content}))
    for path, content in world().files.items()
)

TASKS = [
    Task("one field", [ticket(1, status="closed")], [update(1, status="closed")]),
    Task(
        "three fields of one ticket are one update",
        [ticket(1, status="closed", title="Fixed", assignee="eva")],
        [update(1, status="closed", title="Fixed", assignee="eva")],
    ),
    Task(
        "the ticket task",
        [ticket(1, status="closed", labels=["bug", "late"], comments=[COMMENT, {"body": "Closed: fixed in 2.3"}])],
        [update(1, status="closed", labels=["bug", "late"]), comment(1, "Closed: fixed in 2.3")],
    ),
    Task("a value set to what it was", [ticket(1, status="open")], []),
    Task("an array set to what it was", [ticket(1, labels=["bug"])], []),
    Task("a number of another kind that means the same", [ticket(2, big=1917043659912705296)], []),
    Task(
        "one changed field among others set alike",
        [ticket(1, status="open", title="Fixed", labels=["bug"])],
        [update(1, title="Fixed")],
    ),
    Task(
        "two tickets",
        [ticket(1, status="closed"), ticket(2, 2, status="closed")],
        [update(1, status="closed"), update(2, status="closed")],
    ),
    Task(
        "three tickets, of which one stays as it was",
        [ticket(1, status="closed"), ticket(2, 2, status="open"), ticket(3, 3, assignee="ben")],
        [update(1, status="closed"), update(3, assignee="ben")],
    ),
    Task("labels added and removed go in one update", [ticket(1, labels=["late"])], [update(1, labels=["late"])]),
    Task("all labels gone", [ticket(1, labels=[])], [update(1, labels=[])]),
    Task("a field cleared", [ticket(1, assignee=None, status="x")], [update(1, status="x")]),
    Task("an integer beyond 2^53", [ticket(1, big=1917043659912705297)], [update(1, big=1917043659912705297)]),
    Task("a comment", [ticket(1, comments=[COMMENT, {"body": "x"}])], [comment(1, "x")]),
    Task(
        "two comments",
        [ticket(1, comments=[COMMENT, {"body": "x"}, {"body": "y"}])],
        [comment(1, "x"), comment(1, "y")],
    ),
    Task("a comment removed", [ticket(1, comments=[])], [("delete_comment", {"id": "T-1", "comment_id": 1})]),
    Task(
        "a comment replaced",
        [ticket(1, comments=[{"body": "better"}])],
        [("delete_comment", {"id": "T-1", "comment_id": 1}), comment(1, "better")],
    ),
    Task("a ticket made", [create(1, "New", labels=["a"])], [("create_ticket", {"title": "New", "labels": ["a"]})]),
    Task(
        "a ticket made and changed at once is one call",
        [create(1, "New", setting("status", "closed"), setting("labels", ["a"]))],
        [("create_ticket", {"title": "New", "status": "closed", "labels": ["a"]})],
    ),
    Task(
        "a ticket made with what only an update sets",
        [create(1, "New", setting("assignee", "eva"), setting("status", "closed"))],
        [
            ("create_ticket", {"title": "New", "status": "closed"}),
            lambda made: ("update_ticket", {"id": made[0]["id"], "assignee": "eva"}),
        ],
    ),
    Task(
        "a ticket made, with a comment",
        [create(1, "New", setting("comments", [{"body": "first"}]))],
        [
            ("create_ticket", {"title": "New"}),
            lambda made: ("add_comment", {"id": made[0]["id"], "body": "first"}),
        ],
    ),
    Task(
        "made and deleted again",
        [
            create(1, "New"),
            write(2, "delete_ticket", {"id": reference(1, ("id",))}, operation="delete"),
        ],
        [],
    ),
    Task("a ticket deleted", [delete(1, 2)], [("delete_ticket", {"id": "T-2"})]),
    Task("changed, then deleted", [ticket(2, status="x"), delete(1, 2)], [("delete_ticket", {"id": "T-2"})]),
    Task("two people", [person(1, "c"), person(2, "d")], [("create_entities", {"entities": people("c", "d")})]),
    Task(
        "three people and how they know each other",
        [
            *(person(number, name) for number, name in enumerate("cde", 1)),
            relation(4, reference(1, (0, "name")), reference(2, (0, "name"))),
            relation(5, reference(2, (0, "name")), reference(3, (0, "name"))),
        ],
        [
            ("create_entities", {"entities": people("c", "d", "e")}),
            (
                "create_relations",
                {"relations": [KNOWS | {"from": "c", "to": "d"}, KNOWS | {"from": "d", "to": "e"}]},
            ),
        ],
    ),
    Task(
        "a relation between people who are there",
        [relation(1, "b", "a")],
        [
            ("create_relations", {"relations": [KNOWS | {"from": "b", "to": "a"}]}),
        ],
    ),
    Task("one file", [file("a.txt", "one 2")], [("write_file", {"path": "a.txt", "content": "one 2"})]),
    Task(
        "two files and one left alone",
        [file("a.txt", "one 2"), file("b.txt", "new", 2)],
        [("write_file", {"path": "a.txt", "content": "one 2"}), ("write_file", {"path": "b.txt", "content": "new"})],
    ),
    Task(
        "a file edited by its own tool",
        [write(1, "edit_file", {"path": "a.txt", "edits": [{"oldText": "two", "newText": "2"}]})],
        [("edit_file", {"path": "a.txt", "edits": [{"oldText": "two", "newText": "2"}]})],
        reads=FILES_READ,
    ),
    Task(
        "tickets, people and a file in one program",
        [ticket(1, status="closed"), person(1, "c"), person(2, "d"), file("b.txt", "new", 99)],
        [
            update(1, status="closed"),
            ("create_entities", {"entities": people("c", "d")}),
            ("write_file", {"path": "b.txt", "content": "new"}),
        ],
    ),
    Task(
        "a ticket that names another made before it",
        [create(1, "First"), create(2, "Second"), write(3, "add_comment", {"id": reference(2, ("id",)), "body": "x"})],
        [
            ("create_ticket", {"title": "First"}),
            ("create_ticket", {"title": "Second"}),
            lambda made: ("add_comment", {"id": made[1]["id"], "body": "x"}),
        ],
    ),
]


def seen(world: World) -> Any:
    """Return what the connectors hold, but for the numbers that they gave to new things."""
    tickets = [
        {**each, "id": key if len(key) < 4 else "new", "comments": sorted(c["body"] for c in each["comments"])}
        for key, each in world.tickets.items()
    ]
    relations = sorted(json.dumps(each, sort_keys=True) for each in world.relations)
    return [sorted(map(json.dumps, tickets)), world.files, world.entities, relations, world.mails]


def by_hand(script: Script) -> World:
    done, results = world(), list[Any]()
    for step in script:
        tool, arguments = step(results) if callable(step) else step
        results.append(done.run(tool, arguments))
    return done


def test_there_are_thirty_tasks() -> None:
    assert len({task.name for task in TASKS}) >= 30


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_plan_makes_no_more_calls_than_a_script_by_hand(task: Task) -> None:
    plan = build_plan(task.recording(), catalogue())
    verify(plan, catalogue())
    assert len(plan.calls) <= len(task.script)
    driver = Driver(world())
    assert driver.run(machine(completed(plan, catalogue(), [])).run()) is DeltaState.APPLIED
    assert len(driver.sent) == len(plan.calls)
    assert seen(driver.world) == seen(by_hand(task.script))

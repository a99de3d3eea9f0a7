"""Reads follow what the program planned before, whichever way it was planned (plan-apply-undo 5.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.test_programs import calls
from tests.sandbox.world import open_world

CLOSE = 'await tickets.update_ticket({id: "T-1", status: "closed"});'
GET = 'const t = await tickets.ticket.get("T-1");'

# Program, what it returns, the calls it plans (names and arguments), a part of a note or nothing.
FOLLOWED: list[tuple[str, Any, list[dict[str, Any]], str]] = [
    (CLOSE + GET + "return t.status", "closed", [{"id": "T-1", "status": "closed"}], ""),
    (GET + CLOSE + "return [t.status, t.title]", ["closed", "x"], [{"id": "T-1", "status": "closed"}], ""),
    (
        CLOSE + 'return (await tickets.get_ticket({id: "T-1"})).status',
        "closed",
        [{"id": "T-1", "status": "closed"}],
        "",
    ),
    (CLOSE + GET + "return JSON.parse(JSON.stringify(t)).status", "closed", [{"id": "T-1", "status": "closed"}], ""),
    (
        CLOSE + GET + 't.title = "n"; return t.status',
        "closed",
        [{"id": "T-1", "status": "closed"}, {"id": "T-1", "title": "n"}],
        "",
    ),
    (
        GET + 't.status = "a";' + CLOSE + 'const seen = t.status; t.status = "c"; return [seen, t.status]',
        ["closed", "c"],
        [{"id": "T-1", "status": "closed"}, {"id": "T-1", "status": "c"}],
        "",
    ),
    (
        'await tickets.update_ticket({id: "T-1", labels: ["q"]});' + GET + 't.labels.push("r"); return t.labels',
        ["q", "r"],
        [{"id": "T-1", "labels": ["q"]}, {"id": "T-1", "labels": ["q", "r"]}],
        "",
    ),
    (
        (
            'await tickets.update_ticket({id: "T-2", status: "closed"});'
            'const open = []; for await (const t of tickets.ticket.list({status: "open"})) open.push(t.id); return open'
        ),
        ["T-1", "T-3", "T-4", "T-5", "T-6"],
        [{"id": "T-2", "status": "closed"}],
        "",
    ),
    (
        (
            'await tickets.update_ticket({id: "T-2", status: "closed"});'
            "return (await tickets.list_tickets({})).tickets.map(t => t.status)"
        ),
        ["open", "closed"],
        [{"id": "T-2", "status": "closed"}],
        "",
    ),
    (
        (
            'const t = await tickets.ticket.get("T-9"); t.status = "closed";'
            'return (await tickets.ticket.list({status: "closed"})).some(o => o.id === "T-9")'
        ),
        False,
        [{"id": "T-9", "status": "closed"}],
        "T-9, changed by this program, may be missing",
    ),
    (
        (
            'await tickets.delete_ticket({id: "T-1"}); const seen = [];'
            'for (const get of [() => tickets.ticket.get("T-1"), () => tickets.get_ticket({id: "T-1"})])'
            "{ try { await get() } catch (e) { seen.push(e.name) } }"
            "return [seen, (await tickets.ticket.list()).length, (await tickets.list_tickets({})).tickets.length]"
        ),
        [["NotFound", "NotFound"], 1, 1],
        [{"id": "T-1"}],
        "",
    ),
    (
        (
            'await tickets.create_ticket({title: "new", status: "open"});'
            'const open = []; for await (const t of tickets.ticket.list({status: "open"})) open.push(t.title);'
            'const other = []; for await (const t of tickets.ticket.list({status: "closed"})) other.push(t.title);'
            "return [open.at(-1), other.includes('new')]"
        ),
        ["new", False],
        [{"title": "new", "status": "open"}],
        "",
    ),
    (
        (
            'await tickets.create_ticket({title: "new"});'
            'const open = []; for await (const t of tickets.ticket.list({status: "open"})) open.push(t.title);'
            "return open.includes('new')"
        ),
        False,
        [{"title": "new"}],
        "1 planned ticket may be missing",
    ),
    (
        (
            'await tickets.create_ticket({title: "new", labels: ["x", "y"]});'
            'let last; for await (const t of tickets.ticket.list({label: "x"})) last = t.title; return last'
        ),
        "new",
        [{"title": "new", "labels": ["x", "y"]}],
        "",
    ),
    (
        'await tickets.create_ticket({title: "new"}); return (await tickets.list_tickets({})).tickets.length',
        2,
        [{"title": "new"}],
        "what this program creates is not in the answer",
    ),
    (
        (
            'await tickets.create_ticket({title: "new", status: "open"});'
            'for await (const t of tickets.ticket.list()) if (t.title === "new") t.labels = ["x"]; return 1'
        ),
        1,
        [{"title": "new", "status": "open", "labels": ["x"]}],
        "",
    ),
    (
        CLOSE + 'return (await tickets["count-tickets"]({})).echo',
        None,
        [{"id": "T-1", "status": "closed"}],
        "count_tickets show the state before this program's changes",
    ),
    (
        'await tickets.add_comment({id: "T-1", body: "x"});' + GET + "return t.comments.length",
        3,
        [{"id": "T-1", "body": "x"}],
        "do not show what add_comment will change",
    ),
    (
        CLOSE + GET + "await fresh(() => tickets.ticket.get('T-1')); return t.status",
        "closed",
        [{"id": "T-1", "status": "closed"}],
        "",
    ),
]


async def test_reads_follow_calls_by_tool_name() -> None:
    async with open_world() as world:
        for code, returned, planned, noted in FOLLOWED:
            outcome = await world.run(code)
            assert [arguments for _, arguments in calls(outcome)] == planned, code
            assert json.loads(outcome.returned.json) == returned, code
            if noted:
                assert any(noted in note for note in outcome.notes), (code, outcome.notes)
            else:
                assert all("only the first page" in note for note in outcome.notes), (code, outcome.notes)


async def test_a_value_from_an_earlier_call_shows_as_what_will_come() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const made = await tickets.ticket.create({title: "a"});
        await tickets.update_ticket({id: "T-1", assignee: made.id});
        return (await tickets.ticket.get("T-1")).assignee""")
        assert outcome.error is None, outcome.error
        assert [hole.path for hole in outcome.returned.holes] == [()]


@pytest.mark.parametrize(
    "change", ['t.status = "open"', 'await tickets.ticket.update("T-1", {status: "open"})', "delete t.assignee"]
)
async def test_setting_back_what_a_call_changed_is_refused_rather_than_lost(change: str) -> None:
    async with open_world() as world:
        error = await world.error(
            'await tickets.update_ticket({id: "T-1", status: "late", assignee: "eva"});\n' + GET + change
        )
        assert (error.name, error.kind) == ("Refused", "runtime")
        assert error.line == 2
        assert "leave that call out" in error.message

"""What models write out of habit: each error says what to do instead, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.world import FROZEN, open_world

# Program, line, column (0: not looked at), parts of the message.
MISTAKES: list[tuple[str, int, int, tuple[str, ...]]] = [
    ('const fs = require("fs"); return 1', 1, 12, ("require is not defined", "no modules")),
    ('const r = await fetch("https://x"); return 1', 1, 17, ("no network", "await CONNECTOR.TOOL")),
    ('const a = 1;\nimport fs from "fs"; return 1', 2, 1, ("no modules",)),
    ('return await import("fs")', 1, 14, ("no modules",)),
    ("export default async () => 1", 1, 1, ("no modules",)),
    ("module.exports = 1", 1, 1, ("no modules",)),
    ("return process.env.HOME", 1, 8, ("no process, files or environment",)),
    ("setTimeout(() => 1, 10)", 1, 1, ("await sleep(milliseconds)",)),
    ("return new Intl.NumberFormat().format(1)", 1, 12, ("no locales",)),
    ('return new Date().toLocaleDateString("de-DE")', 1, 0, ("no Intl", "format the value yourself")),
    ('return (1.5).toLocaleString("de", {style: "percent"})', 1, 0, ("no Intl",)),
    ('return "a".localeCompare("b", "de")', 1, 0, ("no Intl",)),
    ("return performance.now()", 1, 8, ("Date.now()",)),
    ("return crypto.randomUUID()", 1, 8, ("Math.random()",)),
    ("return structuredClone({})", 1, 8, ("JSON.parse(JSON.stringify(value))",)),
    ('return Buffer.from("x")', 1, 8, ("btoa",)),
    ('return new URL("http://x").host', 1, 12, ("encodeURIComponent",)),
    ("return document.title", 1, 8, ("no browser",)),
    ('await callTool("tickets.get_ticket")', 1, 7, ("connectors are variables",)),
    (
        'const t = tickets.ticket.get("T-1");\nreturn t.title',
        2,
        0,
        ("no 'title'", "(await tickets.ticket.get(...)).title"),
    ),
    ('const t = tickets.ticket.get("T-1");\nt.status = "closed"', 2, 0, ("(await tickets.ticket.get(...)).status",)),
    (
        'const made = tickets.ticket.create({title: "a"});\nreturn made.id',
        2,
        0,
        ("(await tickets.ticket.create(...)).id",),
    ),
    ("return tickets.ticket.list().map(t => t.id)", 1, 0, ("(await tickets.ticket.list(...)).map",)),
    ("for (const t of tickets.ticket.list()) t", 1, 0, ("await tickets.ticket.list(...)",)),
    ('const {title} = tickets.get_ticket({id: "T-1"})', 1, 0, ("(await tickets.get_ticket(...)).title",)),
    ('return `${tickets.ticket.get("T-1")}`', 1, 0, ("is a promise",)),
    ('if (tickets.ticket.get("T-1")) return 1', 1, 0, ("a promise, which is always true: await it",)),
    ('return JSON.stringify(tickets.ticket.get("T-1"))', 1, 0, ("is a promise",)),
    ('await tickets.update_ticket({id: tickets.ticket.get("T-1")})', 1, 0, ("arguments.id", "missing await")),
    ('return {a: tickets.ticket.get("T-1")}', 1, 0, ("value.a is a Promise (missing await?)",)),
    ("tickets.get_tickt({})", 1, 9, ("nearest: get_ticket", 'delta_read {refs: ["tickets"]}')),
    ("tickets.ticket.find({})", 1, 16, ("it has get, list, search, create, update, delete",)),
    ('await tickets.get_ticket({ticket: "T-1"})', 1, 0, ("missing: id", "unknown: ticket", "get_ticket({id})")),
    (
        'tickets.ticket.list();\n  await tickets.update_ticket({ticket_id: "T-1"})',
        2,
        0,
        ("missing: id", "update_ticket!({id"),
    ),
    ('await tickets.update_ticket("T-1", {})', 1, 0, ("takes one object", "update_ticket({id})")),
    ("await tickets.ticket.get()", 1, 0, ("needs a key",)),
    ('await tickets.ticket.update("T-1")', 1, 0, ("a key and an object",)),
]


async def test_common_mistakes_are_told_with_the_way_out() -> None:
    async with open_world() as world:
        for code, line, column, parts in MISTAKES:
            outcome = await world.run(code)
            error = outcome.error
            assert error is not None, code
            assert outcome.plan is None
            assert error.line == line, (code, error)
            assert column in (0, error.column), (code, error)
            for part in parts:
                assert part in error.message, (code, error)


async def test_promises_of_connectors_are_promises_all_the_same() -> None:
    async with open_world() as world:
        assert await world.value("""
        const get = id => tickets.ticket.get(id), all = await Promise.all(["T-1", "T-2"].map(get));
        const settled = await Promise.allSettled([get("T-1"), tickets.fail({})]);
        const then = await get("T-1").then(t => t.id), caught = await tickets.fail({}).catch(e => e.message);
        let last = 0; const kept = await get("T-3").finally(() => { last = 1 });
        const raced = await Promise.race([get("T-4")]), cache = {}; cache.x ??= get("T-5"); const memo = cache.x || 1;
        const adopted = await (async () => get("T-6"))();
        return [all.length, settled.map(s => s.status), then, caught, last, kept.id, raced.id,
          (await memo).id, adopted.id, get("T-1") instanceof Promise,
          Object.prototype.toString.call(get("T-1"))]""") == [
            2, ["fulfilled", "rejected"], "T-1", "it broke", 1, "T-3", "T-4", "T-5", "T-6", True, "[object Promise]",
        ]  # fmt: skip


CLOCKS: list[tuple[str, Any]] = [
    ("Date.now()", FROZEN),
    ("new Date().getTime()", FROZEN),
    ("Reflect.construct(Date, []).getTime()", FROZEN),
    ("new (class extends Date {})().getTime()", FROZEN),
    ("new Date().toISOString()", "2023-11-14T22:13:20.000Z"),
    ("JSON.stringify(new Date())", '"2023-11-14T22:13:20.000Z"'),
    ("Date()", "Tue Nov 14 2023 22:13:20 GMT+0000"),
    ("new Date().toString()", "Tue Nov 14 2023 22:13:20 GMT+0000"),
    ("Date.parse(Date())", FROZEN),
    ("Date.parse(new Date().toISOString())", FROZEN),
    ("Date.parse('2024-01-01')", 1704067200000),
    ("new Date(2024, 0, 1).getTime()", 1704067200000),
    ("new Date('2024-03-03T12:00:00').getTimezoneOffset()", 0),
    ("new Date().toLocaleDateString()", "11/14/2023"),
    ("(1234.5).toLocaleString()", "1234.5"),
    ("'a'.localeCompare('b')", -1),
    ("'A'.toLocaleLowerCase()", "a"),
    ("typeof performance", "undefined"),
    ("typeof Intl", "undefined"),
]


async def test_every_form_of_now_is_the_tasks_and_nothing_is_local() -> None:
    async with open_world() as world:
        returned = await world.value(f"return [{','.join(code for code, _ in CLOCKS)}]")
        assert returned == [value for _, value in CLOCKS]


# Where the engine knows the place of a failure at run time; column 0: it does not.
PLACES: list[tuple[str, int, int]] = [
    ("const x =\n foo.bar()", 2, 2),
    ("const x = \n  null.y", 2, 8),
    ("let a = 1;\na = a +\n   nope", 3, 4),
    ("const o = {};\no\n  .b\n  .c()", 4, 4),
    ("const o = {\n  a: 1,\n  b: nope.x,\n}", 3, 6),
    ("const f = () => {\n  return nope\n}\n\nf()", 2, 10),
    ("[1].map(x => {\n  x.y.z\n})", 2, 7),
    ("return await Promise.all([1].map(async x => {\n  await null\n  x.y.z\n}))", 3, 7),
    ("const a = 1;\nthrow new Error('x')", 2, 0),
    ("if (true) {\n  throw new TypeError(\n    'x')\n}", 2, 0),
    ("return (\n  missing\n)", 2, 3),
    ("const s = `\n${nope}\n`", 2, 3),
    ("function g(a,\n  b = zz) { return b }\ng(1)", 2, 7),
    ("\nJSON.parse(\n  '{')", 3, 0),
    ("const c = 1\nc = 2", 2, 1),
    ("let q = 3\nq()", 2, 1),
    ("const t = await tickets.ticket.get('T-1')\nreturn t.comments[9]\n  .body", 3, 4),
    ("return [3].reduce(\n  (a, b) => a.b.c, 0)", 2, 17),
    ("const e = new Error('made here');\nawait null;\nthrow e", 1, 0),
    ("const a = 1\nreturn BigInt(1.5)", 2, 0),
    ("const a = 1\nreturn 1n +\n 1", 3, 0),
    ("const m = new Map()\nm.get('x').y = 1", 2, 0),
    ("const t = await tickets.ticket.get('T-1');\nt.labels\n  .filter(l => l)\n  .nope()", 4, 4),
    ("const t = await tickets.ticket.get('T-1');\n\nt.n = NaN", 3, 0),
    ("const t = 1;\nawait tickets.ticket.get(\n  'NOPE')", 3, 0),
]


async def test_failures_at_run_time_have_their_place() -> None:
    async with open_world() as world:
        for code, line, column in PLACES:
            error = await world.error(code)
            assert error.line == line, (code, error)
            assert column in (0, error.column), (code, error)


@pytest.mark.parametrize("code", ["return tickets", "return tickets.ticket"])
async def test_what_cannot_be_returned_is_named(code: str) -> None:
    async with open_world() as world:
        error = await world.error(code)
        assert "is a function" in error.message
        assert json.dumps(error.message)


# Program, line at which what is wrong with its value is told, part of the message.
UNFIT: list[tuple[str, int, str]] = [
    ("const a = 1;\nreturn {a: () => a}", 2, "the returned value.a is a function"),
    ("if (true) {\n  return [new Map()];\n}\nreturn 1", 2, "the returned value [0] is a Map"),
    ("const f = () => {\n return 1 };\nf();\nreturn f", 4, "the returned value is a function"),
    ("try {\n  return 1;\n} finally {\n  return 0 / 0;\n}", 4, "NaN"),
    ("const a = {};\na.a = a;\nreturn a", 3, "circular"),
    ("const long = 'x'.repeat(2_000_000);\nreturn long", 2, "characters; the limit is"),
]


async def test_what_is_wrong_with_the_returned_value_is_told_with_the_line_that_returned_it() -> None:
    async with open_world() as world:
        for code, line, part in UNFIT:
            error = await world.error(code)
            assert part in error.message, (code, error)
            assert error.line == line, (code, error)


async def test_what_a_program_returns_is_what_stands_there() -> None:
    values: list[tuple[str, Any]] = [
        ("return 1, 2", 2),
        ("return (1, 3) as number", 3),
        ("return /* why */ [4]", [4]),
        ("return", None),
        ("return await Promise.resolve(5)", 5),
        ("const f = function* () { yield 6; return 7 }; return [...f()]", [6]),
        ("class C { m() { return 8 } get n() { return 9 } } const c = new C(); return [c.m(), c.n]", [8, 9]),
        ("return ((x) => { return x + 1 })(9)", 10),
    ]
    async with open_world() as world:
        for code, value in values:
            outcome = await world.run(code)
            assert outcome.error is None, (code, outcome.error)
            assert json.loads(outcome.returned.json) == value, code

"""What is there only once the plan is applied: where it may stand, and the place of everything else."""

from __future__ import annotations

import json

from delta_protocol.changes.model import ResultRef, Text
from tests.sandbox.world import open_world

CREATED = "const issue = await tickets.ticket.create({title: 'x'});\n"

# A form, and the column of its line at which it is refused.
REFUSED: list[tuple[str, int]] = [
    ("if (issue.id) return 1", 5),
    ("return issue.id ? 1 : 2", 8),
    ("do {} while (issue.id)", 14),
    ("return !issue.id", 9),
    ("return issue.id ?? 1", 8),
    ("return 'T-9' === issue.id", 18),
    ("switch (issue.id) { case 1: return 1 }", 9),
    ("switch (1) { case issue.id: return 1 }", 19),
    ("return issue.number * 2", 23),
    ("return issue.number < 3", 23),
    ("return issue.number + 1", 23),
    ("return issue.id + issue.number", 8),
    ("const a = issue.id, b = issue.number; return a + b", 46),
    ("let n = 5; n += issue.number; return n", 17),
    ("return -issue.number", 9),
    ("return issue.number ** 2", 8),
    ("return Math.max(issue.number, 1)", 17),
    ("return parseInt(issue.number)", 17),
    ("return new Date(issue.created)", 12),
    ("return JSON.parse(issue.body)", 19),
    ("return 'abc'.startsWith(issue.id)", 25),
    ("return ['x'].includes(issue.id)", 23),
    ("return [issue.id].indexOf('x')", 19),
    ("for (const x of issue.items) return x", 17),
    ("return [...issue.items]", 12),
    ("const [a] = issue.items; return 1", 13),
    ("const l = issue.items; return l.length", 31),
    ("return Object.keys(issue.meta)", 20),
    ("let k = issue.id; k ??= 3; return k", 19),
    ("return typeof issue.id === 'string'", 15),
    ("return issue.id.toUpperCase()", 17),
    ("return await tickets.get_ticket({id: issue.id})", 22),
    ("const l = [1, 2]; return l[issue.number]", 26),
    ("const l = [1, 2]; return l[`${issue.number}`]", 28),
    ("const l = [1, 2]; l[issue.number] = 3; return l", 19),
    ("const o = {a: 1}; delete o[issue.id]; return o", 19),
    ("return {[issue.id]: 1}", 10),
    ("const {[issue.id]: z} = {a: 1}; return z", 9),
]


async def test_deciding_and_calculating_are_refused_at_their_place() -> None:
    async with open_world() as world:
        for code, column in REFUSED:
            error = await world.error(f"{CREATED}\n{code}")
            assert (error.kind, error.name) == ("not_yet_real", "NotYetReal"), (code, error)
            assert (error.line, error.column) == (3, column), (code, error)
            assert f"line 3, column {column}" in error.message, (code, error)
            assert "`${...}`" in error.message
            assert "split the task" in error.message


TEXTS = [
    '"see #" + issue.number',
    "`see #${issue.number}`",
    '"see " + "#" + issue.number',
    '["see #", issue.number].join("")',
    '"see #".concat(issue.number)',
    "s + issue.number",
    "(s) + issue.number",
    "t.title + issue.number",
    "(() => { let made = s; made += issue.number; return made })()",
]


async def test_a_text_with_a_value_that_comes_later_is_a_template() -> None:
    async with open_world() as world:
        world.registry.tickets["T-1"] = {"id": "T-1", "title": "see #"}
        for text in TEXTS:
            outcome = await world.run(f"""{CREATED} const s = "see #", t = await tickets.ticket.get("T-1");
            const text = {text};
            await tickets.add_comment({{id: "T-1", body: text}});
            return {{text, both: text + " and " + issue.id}}""")
            assert outcome.error is None, (text, outcome.error)
            assert outcome.plan is not None
            expected = (Text("see #"), ResultRef(1, ("number",)))
            assert outcome.plan.calls[1].arguments.holes[0].parts == expected, text
            returned = {hole.path: hole.parts for hole in outcome.returned.holes}
            assert returned[("text",)] == expected
            assert returned[("both",)] == (*expected, Text(" and "), ResultRef(1, ("id",)))


async def test_sums_of_what_is_there_are_as_ever() -> None:
    async with open_world() as world:
        code = (
            CREATED
            + """
        const rows = [{n: 1, s: "a"}, {n: 2, s: "b"}], one = 1, big = 5n;
        let total = 0, text = "", mixed = "n"; for (const r of rows) { total += r.n; text += r.s; mixed += r.n }
        const o = {valueOf() { return 40 }};
        let later; later ??= one; later &&= later + one;
        return [total, text, mixed, one + rows[0].n, rows[0].s + rows[0].n, rows[0].n + rows[1].n + text, o + later,
          String(big + big), rows.length + one, [] + one, null + one, rows.map(r => r.n).reduce((a, b) => a + b)]"""
        )
        assert json.loads((await world.run(code)).returned.json) == [
            3, "ab", "n12", 2, "a1", "3ab", 42, "10", 3, "1", 1, 3,
        ]  # fmt: skip

"""What a program can do: reads, planned writes, placeholders, exact numbers, errors with their place."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from delta_actors.runtime import Call
from delta_protocol.changes.model import ResultRef, Text
from delta_protocol.config import ProgramLimits
from delta_protocol.wire.message import Answer, Item, Question
from delta_protocol.wire.registry import ReadTool, ToolReply
from delta_protocol.wire.sandbox import ProgramOutcome
from tests.sandbox.world import FROZEN, ok, open_world


def calls(outcome: ProgramOutcome) -> list[tuple[str, Any]]:
    assert outcome.error is None, outcome.error
    assert outcome.plan is not None
    return [(call.tool, json.loads(call.arguments.json)) for call in outcome.plan.calls]


async def test_the_same_read_is_one_call_and_fresh_makes_another() -> None:
    async with open_world() as world:
        code = """
        const [a, b] = await Promise.all([tickets.get_ticket({id: "T-1"}), tickets.ticket.get("T-1")]);
        const c = await tickets.ticket.get("T-1");
        await fresh(() => tickets.ticket.get("T-1"));
        return [a.title, b === c]"""
        assert await world.value(code) == ["x", True]
        assert len(world.registry.asked) == 2
        outcome = await world.run(code)
        assert [read.occurrence for read in outcome.reads] == [0, 1]


async def test_reads_run_together_but_at_most_eight_per_connector() -> None:  # acceptance 14
    async with open_world() as world:
        world.registry.pause = 0.05
        code = "return (await Promise.all(Array.from({length: 30}, (_, i) => tickets.ticket.get('T-' + i)))).length"
        assert await world.value(code) == 30
        assert world.registry.most == 8


async def test_entities_keep_one_identity_over_get_list_and_search() -> None:
    async with open_world() as world:
        code = """
        const [first] = await tickets.ticket.list({status: "open"});
        const same = await tickets.ticket.get(first.id);
        const [found] = await tickets.ticket.search("listed");
        return [first === same, first === found, same.customer.name]"""
        assert await world.value(code) == [True, True, "Al"]


async def test_a_list_pages_itself_in_for_await() -> None:
    async with open_world() as world:
        code = "const ids = []; for await (const t of tickets.ticket.list()) ids.push(t.id); return ids"
        outcome = await world.run(code)
        assert outcome.returned.json == b'["T-1","T-2","T-3","T-4","T-5","T-6"]'
        assert outcome.notes == ()
        outcome = await world.run("return (await tickets.ticket.list()).length")
        assert outcome.returned.json == b"2"
        assert any("only the first page" in note for note in outcome.notes)


async def test_calling_a_write_tool_plans_exactly_that_call() -> None:
    async with open_world() as world:
        outcome = await world.run("await tickets.update_ticket({id: 'T-1', status: 'closed'}); return 1")
        assert calls(outcome) == [("update_ticket", {"id": "T-1", "status": "closed"})]
        assert world.registry.asked == []


async def test_a_write_that_is_not_awaited_is_in_the_plan() -> None:
    async with open_world() as world:
        assert calls(await world.run("tickets.delete_ticket({id: 'T-1'}); return 1")) == [
            ("delete_ticket", {"id": "T-1"})
        ]
        assert calls(await world.run("tickets.ticket.update('T-1', {status: 'late'}); return 1")) == [
            ("update_ticket", {"id": "T-1", "status": "late"})
        ]


async def test_a_created_entity_stands_in_later_writes_texts_and_the_returned_value() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const issue = await tickets.ticket.create({title: "New"});
        await tickets.add_comment({id: issue.id, body: `see #${issue.id}` + " or " + issue.url});
        return {id: issue.id, text: "made " + issue.id, title: issue.title}""")
        made = calls(outcome)
        assert [name for name, _ in made] == ["create_ticket", "add_comment"]
        assert outcome.plan is not None
        holes = {hole.path: hole.parts for hole in outcome.plan.calls[1].arguments.holes}
        assert holes[("id",)] == (ResultRef(1, ("id",)),)
        assert holes[("body",)] == (Text("see #"), ResultRef(1, ("id",)), Text(" or "), ResultRef(1, ("url",)))
        assert json.loads(outcome.returned.json) == {"id": None, "text": None, "title": "New"}
        assert {hole.path for hole in outcome.returned.holes} == {("id",), ("text",)}


async def test_the_result_of_a_write_tool_is_a_placeholder_throughout() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const made = await tickets.create_ticket({title: "a"});
        tickets.update_ticket({id: made.ticket.id, title: "b"}); return made""")
        assert outcome.plan is not None, outcome.error
        assert outcome.plan.calls[1].arguments.holes[0].parts == (ResultRef(1, ("ticket", "id")),)
        assert outcome.returned.holes[0].parts == (ResultRef(1, ()),)


async def test_changes_of_a_new_entity_go_into_its_creation() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const t = await tickets.ticket.create({title: "a", labels: ["x"]});
        t.title = "b"; t.labels.push("y"); t.status = "open"; return t.title""")
        assert calls(outcome) == [("create_ticket", {"title": "b", "labels": ["x", "y"], "status": "open"})]


NOT_YET = [
    "if (issue.id) return 1",
    "return issue.id ? 1 : 2",
    "while (issue.id) {}",
    "return !issue.id",
    "return issue.id && 1",
    "return issue.id || 1",
    "return issue.id ?? 1",
    "return issue.id === 'T-9'",
    "return issue.id != 5",
    "switch (issue.id) { case 1: return 1 }",
    "return issue.number + 1",
    "let n = 5; n += issue.number; return n",
    "return issue.number * 2",
    "return issue.number < 3",
    "return Math.max(issue.number, 1)",
    "for (const x of issue.items) return x",
    "return [...issue.items]",
    "return Object.keys(issue.meta)",
    "return {...issue.meta}",
    "issue.items.push(1)",
    "issue.meta.x = 1",
    "return issue.items.length",
    "return await tickets.get_ticket({id: issue.id})",
    "return await tickets.echo({value: `x${issue.id}`})",
    "return await tickets.echo({value: {deep: [issue.id]}})",
    "if (`${issue.id}` === 'T-9') return 1",
]


async def test_using_what_is_not_there_yet_says_where_and_what_to_do() -> None:
    async with open_world() as world:
        for code in NOT_YET:
            error = await world.error(f"const issue = await tickets.ticket.create({{title: 'x'}});\n  {code}")
            assert error.kind == "not_yet_real", (code, error)
            assert error.line == 2, (code, error)
            assert error.column >= 3, (code, error)
            assert "later write" in error.message, (code, error)


async def test_conditions_on_what_is_there_are_untouched() -> None:
    async with open_world() as world:
        code = """
        const issue = await tickets.ticket.create({title: "x"});
        if (issue && issue.title === "x" && !issue.title.startsWith("y")) return (issue.title + 1) ?? 0"""
        assert await world.value(code) == "x1"


async def test_lists_follow_planned_changes() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const t = await tickets.ticket.get("T-1"); t.title = "changed";
        await tickets.ticket.delete("T-2");
        await tickets.ticket.create({title: "mine", status: "open"});
        const all = []; for await (const t of tickets.ticket.list({status: "open"})) all.push(t.title);
        const closed = []; for await (const t of tickets.ticket.list({status: "closed"})) closed.push(t.title);
        const odd = []; for await (const t of tickets.ticket.list({owner: "me"})) odd.push(t.title);
        return [all, closed.length, odd.length]""")
        assert outcome.error is not None  # `owner` is no parameter of the tool
        outcome = await world.run("""
        const t = await tickets.ticket.get("T-1"); t.title = "changed";
        await tickets.ticket.delete("T-2");
        await tickets.ticket.create({title: "mine"});
        const all = []; for await (const t of tickets.ticket.list()) all.push(t.title);
        const open = []; for await (const t of tickets.ticket.list({status: "open"})) open.push(t.title);
        return [all, open]""")
        assert json.loads(outcome.returned.json) == [
            ["changed", "listed", "listed", "listed", "listed", "mine"],
            ["changed", "listed", "listed", "listed", "listed"],
        ]
        assert any("may be missing" in note for note in outcome.notes)


async def test_a_new_entity_can_be_got_by_its_key() -> None:
    async with open_world() as world:
        code = (
            "const a = await tickets.ticket.create({title: 'x'}); return a === await tickets.ticket.get(a.id) ? 1 : 2"
        )
        assert await world.value(code) == 1


async def test_a_deleted_entity_is_gone_for_the_program() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const t = await tickets.ticket.get("T-1"); await tickets.ticket.delete(t);
        const seen = [];
        try { await tickets.ticket.get("T-1") } catch (e) { seen.push(e.name) }
        try { t.title = "y" } catch (e) { seen.push(e.name) }
        return seen""")
        assert json.loads(outcome.returned.json) == ["NotFound", "Refused"]
        assert [name for name, _ in calls(outcome)] == ["delete_ticket"]


async def test_a_read_by_tool_name_shows_planned_changes() -> None:
    async with open_world() as world:
        code = """const t = await tickets.ticket.get("T-1"); t.title = "new";
        return (await tickets.get_ticket({id: "T-1"})).title"""
        assert await world.value(code) == "new"


async def test_big_integers_stay_exact_both_ways() -> None:
    async with open_world() as world:
        big = 2**63 - 1
        world.registry.tickets["T-1"] = {"id": "T-1", "n": big, "odd": "\x01i7", "list": [-(2**60), 5]}
        outcome = await world.run("""
        const t = await tickets.ticket.get("T-1");
        t.n += 1n;
        const back = await tickets.echo({value: {n: t.n, odd: t.odd}});
        return [typeof t.n, t.n, t.odd, t.list, back.echo, JSON.stringify(t.n), `${t.n}`, typeof t.list[1]]""")
        assert json.loads(outcome.returned.json) == [
            "bigint",
            big + 1,
            "\x01i7",
            [-(2**60), 5],
            {"n": big + 1, "odd": "\x01i7"},
            f'"{big + 1}"',
            str(big + 1),
            "number",
        ]
        assert calls(outcome) == [("update_ticket", {"id": "T-1", "n": big + 1})]


async def test_read_errors_are_normal_errors() -> None:
    async with open_world() as world:
        code = """try {\n await tickets.fail({}) } catch (e) {
        return [e instanceof Error, e.message, e.connector, e.tool, e.line] }"""
        assert await world.value(code) == [True, "it broke", "tickets", "fail", 2]
        error = await world.error("return 1 +\n   await tickets.fail({})")
        assert (error.kind, error.message, error.line) == ("host", "it broke", 2)


async def test_a_program_that_throws_changes_nothing() -> None:
    async with open_world() as world:
        outcome = await world.run("tickets.delete_ticket({id: 'T-1'});\n  null.x")
        assert outcome.plan is None
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.name, outcome.error.line) == ("runtime", "TypeError", 2)
        assert outcome.error.source == "1 | tickets.delete_ticket({id: 'T-1'});\n2 |   null.x"


async def test_unknown_names_come_with_the_nearest_and_how_to_look_up() -> None:
    async with open_world() as world:
        for code, near in (
            ("await tickets.get_tickt({id: 'T-1'})", "get_ticket"),
            ("await tickets.ticket.gett('T-1')", "get"),
            ("await tickets.tiket.get('T-1')", "ticket"),
        ):
            error = await world.error(code)
            assert error.name == "NotFound"
            assert near in error.message
            assert 'delta_read {refs: ["tickets"]}' in error.message
        error = await world.error("return ticket.get_ticket({id: 1})")
        assert "nearest connectors: tickets" in error.message
        assert (error.line, error.column) == (1, 8)
        error = await world.error("return my_server.anything({})")
        assert "not listed yet" in error.message


async def test_tools_by_their_own_name_and_unusable_tools() -> None:
    async with open_world() as world:
        assert await world.value(
            'return [typeof tickets["count-tickets"], tickets.count_tickets === tickets["count-tickets"]]'
        ) == [
            "function",
            True,
        ]
        assert "is no schema" in (await world.error("await tickets.broken({})")).message
        assert "switched off" in (await world.error("await tickets.hidden({})")).message
        assert "{id}" in (await world.error("await tickets.get_ticket('T-1')")).message
        assert "id" in (await world.error("await tickets.get_ticket({})")).message


async def test_a_tool_whose_effect_hangs_on_its_arguments() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        const read = await tickets.query({sql: "SELECT 1"});
        const made = await tickets.query({sql: "DELETE FROM t"});
        return [typeof read.echo, made]""")
        assert calls(outcome) == [("query", {"sql": "DELETE FROM t"})]
        assert len(world.registry.asked) == 1


async def test_time_and_chance_are_frozen() -> None:
    async with open_world() as world:
        code = "return [Date.now(), new Date().getTime(), new Date().toISOString(), Math.random(), Math.random()]"
        first = await world.run(code)
        assert first.returned == (await world.run(code)).returned
        assert first.fuel == (await world.run(code)).fuel == (await world.run(code)).fuel
        now, same, iso, one, two = json.loads(first.returned.json)
        assert now == same == FROZEN
        assert iso.startswith("2023-11-14T22:13:20")
        assert 0 <= one < 1
        assert one != two
        assert json.loads((await world.run(code, seed=7)).returned.json)[3] != one


async def test_fuel_is_equal_for_equal_answers() -> None:
    async with open_world() as world:
        code = (
            "let n = 0; for (let i = 0; i < 5; i++) n += (await tickets.ticket.get('T-' + i)).labels.length; return n"
        )
        assert len({(await world.run(code)).fuel for _ in range(3)}) == 1


async def test_sleep_console_and_reads_that_nobody_awaits() -> None:
    async with open_world() as world:
        outcome = await world.run("""
        await sleep(5); console.log("a", {b: 1}, 2n, [1]); console.error(new Error("x"));
        tickets.echo({value: 1}).then(r => console.log(r.echo)); return 1""")
        assert outcome.console == ('a {"b":1} 2 [1]', "Error: x", "1")
        outcome = await world.run("tickets.slow({}); return 5")
        assert outcome.returned.json == b"5"
        assert any("not awaited" in note for note in outcome.notes)


async def test_typescript_is_accepted_and_keeps_its_places() -> None:
    async with open_world() as world:
        code = """
        interface T { id: string; labels?: string[] }
        type X = T | null;
        const f = async <U,>(id: string, extra?: U): Promise<T> => await tickets.ticket.get(id) as T;
        class A<V> { private readonly x: number = 1; constructor(public0: V) {} get(): number { return this.x! } }
        const m: Map<string, number> = new Map<string, number>([["a", 1]]);
        const r = await Promise.all<number>([1, 2]);
        const c = { x: 1 } satisfies Record<string, number>;
        return [(await f("T-1")).id, new A<string>("q").get(), m.get("a")!, r.length, c.x]"""
        assert await world.value(code) == ["T-1", 1, 1, 2, 1]
        error = await world.error("const a: number = 1;\nconst b: string = null as any; b.foo")
        assert (error.line, error.column) == (2, 34)
        error = await world.error("const a = 1;\nenum Mode { A }\nreturn 1")
        assert (error.kind, error.line, error.column) == ("syntax", 2, 1)
        assert "enum" in error.message
        error = await world.error("const a = 1;\nimport fs from 'fs'; return 1")
        assert (error.kind, error.line, error.column) == ("syntax", 2, 1)
        assert "no modules" in error.message
        assert await world.value("const a = 1, b = 2; return a < b && b > (1)") is True


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ("const a = 1;\nconst b = ;\n", 2, 11),
        ("return (1 + ", 1, 0),
        ("x.y", 1, 1),
        ("const t = 1;\n\n  t.a.b.c()", 3, 0),
        ("const é = '😀'; é.x.y", 1, 0),
        ("if (true) { nope() }", 1, 13),
        ("let a = 0; if (a === 0 && !a) { a.b.c }", 1, 33),
    ],
)
async def test_errors_give_line_and_column(code: str, line: int, column: int) -> None:
    async with open_world() as world:
        error = await world.error(code)
        assert error.line == line, error
        assert column in (0, error.column) or abs(error.column - column) <= 4, error


async def test_a_connectors_question_reaches_the_caller_and_the_answer_the_connector() -> None:
    async def asks(request: ReadTool, call: Call) -> ToolReply:
        answer = await call.question(Question("tickets", "elicitation/create", b'{"message":"which?"}'))
        assert isinstance(answer, Answer)
        return ok({"echo": json.loads(answer.result or b"null")})

    async def listener(item: Item) -> Item | None:
        return Answer(result=b'"this"') if isinstance(item, Question) else None

    async with open_world() as world:
        world.registry.special["a"] = asks
        assert await world.value("return (await tickets.a({})).echo", listener=listener) == "this"


async def test_cancelling_a_program_reaches_the_connector_and_ends_the_worker() -> None:
    async with open_world() as world:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.run, "await tickets.slow({})")
            with trio.fail_after(10):
                while not world.registry.running:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        with trio.fail_after(5):
            await world.registry.cancelled.wait()
        assert await world.value("return 1") == 1


async def test_limits_on_calls_and_answers() -> None:
    async with open_world() as world:
        limits = ProgramLimits(host_calls=3)
        error = await world.error("for (let i = 0; i < 4; i++) await tickets.echo({value: i})", limits=limits)
        assert (error.kind, error.limit) == ("limit", "host_calls")
        error = await world.error("await tickets.get_ticket({id: 'T-1'})", limits=ProgramLimits(host_answer=50))
        assert "limit is 50" in error.message
        big = "return new Uint8Array(24 << 20).length"
        assert await world.value(big) == 24 << 20
        error = await world.error(big, limits=ProgramLimits(memory=8 << 20))
        assert (error.kind, error.limit) == ("limit", "memory")


async def test_the_whole_task_of_the_start_page() -> None:
    async with open_world() as world:
        outcome = await world.run(
            'const t = await tickets.ticket.get("T-1"); t.status = "closed"; t.labels.push("late"); '
            't.comments.push({body: "Closed: fixed in 2.3"}); return t.title;'
        )
        assert outcome.returned.json == b'"x"'
        assert [name for name, _ in calls(outcome)] == ["update_ticket", "add_comment"]


async def test_a_program_that_awaits_very_often_comes_to_its_end() -> None:
    async with open_world() as world:
        assert await world.value("let n = 0; for (let i = 0; i < 150000; i++) { await null; n++ } return n") == 150000

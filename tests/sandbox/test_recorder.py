"""What is recorded replays to the value the program ended with, and entities behave as plain data meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delta_actors.sandbox import program
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.model import Plan, Recording
from delta_protocol.codecs import exact_json
from delta_protocol.wire.sandbox import ProgramOutcome
from tests import shared_data
from tests.sandbox.world import TICKET, World, open_world

# Each runs twice: on an entity `t` and on a plain copy of it; value and final state must be equal.
SAME = [
    "t.status = 'closed'; t.labels.push('late'); t.comments.push({ body: 'hi' }); return t.title",
    "t.customer.address.city = 'Rome'; delete t.n; return Object.keys(t)",
    "t.labels = [...t.labels, 'z']; return t.labels.length",
    "t.labels[0] = 'q'; t.labels[2] = 'end'; return t.labels",
    "for (const c of t.comments) c.body = c.body.toUpperCase(); return t.comments.map(c => c.body)",
    "t.comments.sort((a, b) => b.id - a.id); t.comments[0].body = 'last'; return t.comments.map(c => c.id)",
    "t.labels.reverse(); return t.labels.join()",
    "t.labels.sort(); t.labels.unshift('0', '1'); return t.labels.indexOf('a')",
    "t.n++; t.n += 2; t.title ??= 'no'; t.missing ??= 'yes'; t.flag ||= false; return t",
    "t.due = new Date(0); return JSON.stringify(t.due)",
    "return [t.labels.pop(), t.labels.shift(), t.labels.pop(), t.labels.length]",
    "return t.comments.splice(1, 1).map(c => c.id)",
    "t.comments.splice(-1, 1, { id: 7 }, { id: 8 }); return t.comments.length",
    "t.labels.length = 1; return t.labels",
    "t.labels.length = 0; t.labels.push('only'); return t.labels",
    "t.labels.fill('f'); return t.labels",
    "t.comments.fill({ id: 0 }); return t.comments.length",
    "t.labels.push('c', 'd', 'e'); t.labels.copyWithin(0, 3); return t.labels",
    "const [a, ...rest] = t.labels; rest.push('no'); return [a, t.labels.length]",
    "const last = t.comments.at(-1); last.body = 'at'; t.comments.find(c => c.id === 1).body = 'found'; return 1",
    "for (const k in t) if (k === 'title') t[k] = 'loop'; return Object.entries(t.customer).length",
    "const s = t.comments.toSorted((a, b) => b.id - a.id); return [s.map(c => c.id), t.comments.map(c => c.id)]",
    "t.labels.concat(['z']); t.labels.slice().push('n'); return t.labels.length",
    "return `${t.title} ${JSON.stringify(t.customer)} ${t.labels}`",
    "Object.assign(t, { status: 's', extra: { deep: [1, { two: 2 }] } }); t.extra.deep[1].two = 3; return t.extra",
    "const { customer, ...others } = t; others.status = 'x'; customer.name = 'Bo'; return t.status",
    "Array.prototype.push.call(t.labels, 'proto'); return t.labels",
    "return [Array.isArray(t.labels), t.labels instanceof Array, t instanceof Object, typeof t, 'n' in t]",
    "return [t.labels === t.labels, t.customer === t.customer, t.comments[0] === t.comments[0], t.title === 'x']",
    "return [Object.keys(t), Object.values(t.customer.address), Object.hasOwn(t, 'n'), t.hasOwnProperty('zz')]",
    "return structured(t); function structured(o) { return JSON.parse(JSON.stringify(o)) }",
    "t.a = 1; t.a = 2; delete t.a; return 'a' in t",
    "t.customer = { name: 'New' }; t.customer.vip = true; return t.customer",
    "const c = t.comments[1]; t.comments.splice(0, 1); c.body = 'moved'; return t.comments[0].body",
    "t.labels = t.labels.filter(l => l !== 'a'); return t.labels",
    "t.labels = t.labels.map(l => l.toUpperCase()); t.labels.push('x'); return t.labels",
    "[t.labels[0], t.labels[1]] = [t.labels[1], t.labels[0]]; return t.labels",
    "t.empty = {}; t.empty.list = []; t.empty.list.push([1]); t.empty.list[0].push(2); return t.empty",
    "t['odd key'] = null; t['1'] = true; return Object.keys(t)",
    "t.comments.forEach((c, i) => { if (i) c.seen = true }); return t.comments.filter(c => c.seen).length",
    "t.comments = t.comments.filter(c => c.id !== 2); t.comments.push({ id: 9 }); return t.comments.length",
    "t.n = undefined; return 'n' in t ? 'kept' : 'gone'",
    "Object.defineProperty(t, 'x', { value: 5, writable: true, enumerable: true, configurable: true }); return t.x",
    "t['__proto__x'] = { a: 1 }; return Object.keys(t).length",
    "t.labels.push('\\u0001odd', '\\u0001i5', '😀'); return t.labels",
    "return Object.groupBy(t.comments, c => c.id > 1 ? 'many' : 'one').many.length",
    "return [...t.labels.entries()].length + t.labels.lastIndexOf('b') + t.labels.includes('a')",
    "t.big = 12345678901234567890n; return String(t.big)",
]

# `t.n = undefined` deletes on an entity; JSON shows no difference.
DIFFERENT_VALUE = {"t.n = undefined; return 'n' in t ? 'kept' : 'gone'"}

REFUSED = [
    "t.x = () => 1",
    "t.x = Promise.resolve(1)",
    "t.x = Symbol('a')",
    "t.x = NaN",
    "t.x = { deep: [new Map()] }",
    "const o = {}; o.o = o; t.x = o",
    "t.labels.push(undefined, () => 1)",
    "Object.defineProperty(t, 'x', { get() { return 1 } })",
    "Object.setPrototypeOf(t, null)",
    "Object.freeze(t)",
    "t.labels[9] = 'hole'",
    "delete t.labels[0]",
    "t.labels.name = 'x'",
    "t.labels.length = 99",
    "t[Symbol('s')] = 1",
]


def _entity(code: str) -> str:
    return f"const t = await tickets.ticket.get('T-1'); const f = async () => {{\n{code}\n}}; return [await f(), t]"


def _plain(code: str) -> str:
    return f"const t = {json.dumps(TICKET)}; const f = async () => {{\n{code}\n}}; return [await f(), t]"


async def _run_bare(world: World, code: str) -> ProgramOutcome:
    return await world.run(f"const t = await tickets.ticket.get('T-1');\n{code}")


async def test_entities_behave_as_plain_data_and_their_changes_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings: list[Recording] = []

    def keep(recording: Recording, catalogue: Catalogue) -> Plan:
        recordings.append(recording)
        return Plan(catalogue.number, ())

    # The plan of some of these is refused (a field that no tool sets); here only the recording counts.
    monkeypatch.setattr(program, "build_plan", keep)
    wrong: list[Any] = []
    async with open_world() as world:
        for code in SAME:
            recordings.clear()
            value, expected = await world.value(_entity(code)), await world.value(_plain(code))
            if code in DIFFERENT_VALUE:
                value[0] = expected[0]
            changes = recordings[0].changes
            after = exact_json.decode(changes[0].after.json) if changes else TICKET
            if value != expected or after != expected[1]:
                wrong.append((code, value, after, expected))
    assert not wrong, "\n".join(map(str, wrong))


async def test_what_json_cannot_hold_is_refused_with_its_line() -> None:
    async with open_world() as world:
        for code in REFUSED:
            outcome = await _run_bare(world, code)
            assert outcome.error is not None, code
            assert outcome.error.kind == "runtime", (code, outcome.error)
            assert outcome.error.line == 2, (code, outcome.error)


@pytest.mark.shared_data
async def test_the_shared_recorder_programs_replay(record_property: Any) -> None:
    given = json.loads(shared_data.data("data", "sandbox", "recorder.json").read_text())
    async with open_world() as world:
        world.registry.tickets["T-1"] = given["entity"]
        for code in given["programs"]:
            outcome = await _run_bare(world, code)
            assert outcome.error is None or outcome.error.kind == "runtime", (code, outcome.error)
    record_property("programs", len(given["programs"]))
    print(f"{len(given['programs'])} shared recorder programs ran")


async def test_a_change_to_a_removed_item_is_not_planned_and_said() -> None:
    async with open_world() as world:
        outcome = await _run_bare(world, "const c = t.comments[0];\nt.comments.shift();\nc.body = 'x'; return 1")
        assert outcome.error is None
        assert any("line 4" in note and "no longer part" in note for note in outcome.notes)


async def test_a_stored_value_is_a_copy() -> None:
    async with open_world() as world:
        code = "const a = { k: [1] }; t.x = a; a.k.push(2); return [t.x, a]"
        outcome = await _run_bare(world, code)
        assert outcome.error is None
        assert json.loads(outcome.returned.json) == [{"k": [1]}, {"k": [1, 2]}]
        assert outcome.plan is not None
        assert json.loads(outcome.plan.calls[0].arguments.json)["x"] == {"k": [1]}


async def test_a_value_set_back_needs_no_call() -> None:
    async with open_world() as world:
        outcome = await _run_bare(world, "t.status = 'closed'; t.status = 'open'; return 1")
        assert outcome.plan is not None
        assert outcome.plan.calls == ()

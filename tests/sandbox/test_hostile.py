"""Hostile programs end within their limit with a typed outcome, gain nothing, and leave the sandbox serving."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from delta_protocol.config import ProgramLimits
from delta_protocol.wire.sandbox import ProgramOutcome
from tests import shared_data
from tests.sandbox.world import open_world

KINDS = {"syntax", "runtime", "host", "limit", "deadlock", "deadline", "not_yet_real", "crash"}
SMALL = {"fuel": 400_000_000}

# Program, limits, and what comes of it: the error's (kind, name or limit), or the value.
HOSTILE: list[tuple[str, dict[str, Any], Any]] = [
    ("for (;;) {}", SMALL, ("limit", "fuel")),
    ("for (;;) { try { for (;;) {} } catch { } finally { for (;;) {} } }", SMALL, ("limit", "fuel")),
    ("let n = 0; while (true) n += 1", {"cpu": 0.2, "fuel": 10**12}, ("limit", "cpu")),
    ("const spin = () => Promise.resolve().then(spin); await spin()", {"cpu": 0.3, "fuel": 10**12}, ("limit", "cpu")),
    (
        "const spin = () => Promise.resolve().then(spin); await spin()",
        {"cpu": 20.0, "fuel": 10**12},
        ("limit", "memory"),
    ),
    ("async function f() { await null; return f() } return await f()", SMALL, ("limit", None)),
    ("let n = 0; while (n < 250000) { await null; n += 1 } return n", {"fuel": 10**12}, 250000),
    ("function f() { return f() + 1 } return f()", {}, ("limit", "stack")),
    ("const p = new Proxy({}, { get(t, k, r) { return r[k] } }); return p.x", {}, ("limit", "stack")),
    ("return JSON.parse('['.repeat(1e6))", {}, ("limit", "stack")),
    ("let a = [1]; for (;;) a = a.concat(a)", {}, ("limit", None)),
    ("let s = 'x'; for (;;) s = s + s + s", {}, (None, None)),
    ("const k = []; for (;;) k.push(new Uint8Array(1 << 20))", {}, (None, None)),
    ("const m = new Map(); for (let i = 0; ; i++) m.set(i, 'v' + i)", SMALL, ("limit", None)),
    ("const k = []; for (;;) { try { k.push('x'.repeat(1 << 22) + k.length) } catch {} }", SMALL, ("limit", None)),
    ("return /^(a+)+$/.test('a'.repeat(40) + '!')", SMALL, ("limit", "fuel")),
    ("return new Array(2 ** 32 - 1).join('').length", SMALL, ("limit", None)),
    ("Array.prototype.sort.call({ length: 2 ** 32 }, () => 0)", SMALL, ("limit", None)),
    ("return Array.prototype.indexOf.call({ length: 2 ** 40 }, 1)", SMALL, ("limit", "fuel")),
    ("let b = 3n; for (let i = 0; i < 60; i++) b *= b", SMALL, (None, None)),
    ("await new Promise(() => {})", {}, ("deadlock", "DeadlockError")),
    ("for (;;) tickets.echo({ value: 1 })", {}, ("limit", "host_calls")),
    ("for (;;) { try { tickets.echo({ value: 1 }) } catch {} }", {}, ("limit", None)),
    ("return 'x'.repeat(5e6)", {}, ("limit", "result")),
    ("for (let i = 0; i < 1e5; i++) console.log('x'.repeat(1000))", {}, ("limit", "console")),
    ("for (;;) { try { console.log('x'.repeat(1e6)) } catch {} }", SMALL, ("limit", None)),
    ("await tickets.echo({ value: 'x'.repeat(5e6) })", {}, ("limit", "argument")),
    ("for (let i = 0; i < 1e4; i++) tickets.delete_ticket({ id: 'T-1' })", {}, ("limit", "planned_calls")),
    ("const o = {}; o.o = o; return o", {}, ("runtime", "TypeError")),
    ("let o = 1; for (let i = 0; i < 200; i++) o = [o]; return o", {}, ("limit", "depth")),
    ("return Function('return 1')()", {}, ("runtime", "TypeError")),
    ("return (() => {}).constructor('return 1')()", {}, ("runtime", "TypeError")),
    ("return (async () => {}).constructor('return 1')()", {}, ("runtime", "TypeError")),
    ("return (function* () {}).constructor('yield 1')()", {}, ("runtime", "TypeError")),
    ("return eval('1')", {}, ("runtime", "TypeError")),
    ("return (0, eval)('1')", {}, ("runtime", "TypeError")),
    ("return await import('fs')", {}, (None, None)),
    ("return await import('data:text/javascript,export default 1')", {}, (None, None)),
    (
        "return typeof require + typeof process + typeof fetch + typeof WebAssembly + typeof setTimeout",
        {},
        "undefined" * 5,
    ),
    ("return typeof __bridge", {}, "undefined"),
    ("return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 1000)", {}, (None, None)),
    ("return 1 }); globalThis.x = 5; (async () => {", {}, ("syntax", "SyntaxError")),
    ("throw undefined", {}, ("runtime", "Error")),
    ("throw Symbol('s')", {}, ("runtime", "Error")),
    ("throw () => 1", {}, ("runtime", "Error")),
    ("throw new Error('m'.repeat(5e6))", {}, ("runtime", "Error")),
    ("throw new Proxy({}, { get() { throw 1 } })", {}, ("runtime", "Error")),
    (
        "const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { for (;;); } }); throw e",
        SMALL,
        ("limit", "fuel"),
    ),
    ("return { toJSON() { return this } }", {}, (None, None)),
    ("return [1, { a: new Map() }]", {}, ("runtime", "TypeError")),
    ("return { p: tickets.echo({ value: 1 }) }", {}, ("runtime", "TypeError")),
    ("return NaN", {}, ("runtime", "TypeError")),
    ("return { then(yes) { yes('adopted') } }", {}, "adopted"),
    ("return '\\ud800x'", {}, "\ufffdx"),
    ("return { ['\\ud800']: 1 }", {}, {"\ufffd": 1}),
    ("Object.prototype.toJSON = () => 'no'; return (await tickets.echo({ value: { a: 1 } })).echo", {}, {"a": 1}),
    ("Object.prototype.get = 1; Object.prototype.value = 2; return (await tickets.echo({ value: 3 })).echo", {}, 3),
    (
        """JSON.stringify = () => "[]"; JSON.parse = () => ({}); Map.prototype.get = () => undefined;
        Promise.prototype.then = function () { throw 1 }; return (await tickets.echo({ value: 7 })).echo""",
        {},
        7,
    ),
    (
        """for (const k of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[k] } catch {} }
        return (await tickets.echo({ value: 8 })).echo""",
        {},
        8,
    ),
    ("Array.prototype[Symbol.iterator] = function* () {}; return (await tickets.echo({ value: 9 })).echo", {}, 9),
    (
        "Object.defineProperty(Array.prototype, 0, { set() { throw 1 } }); return (await tickets.echo({})).echo",
        {},
        (None, None),
    ),
    ("Error.prepareStackTrace = () => ({}); return (await tickets.echo({ value: 5 })).echo", {}, 5),
    ("Error.stackTraceLimit = 0; return (await tickets.echo({ value: 5 })).echo", {}, 5),
    ("return tickets.get_ticket.constructor('return 1')()", {}, ("runtime", "TypeError")),
    ("tickets.get_ticket = 1", {}, ("runtime", "TypeError")),
    ("tickets.__proto__.x = 1", {}, ("runtime", None)),
    ("await sleep(1e9)", {}, ("runtime", "RangeError")),
    ("return performance.now() + new Date().getTimezoneOffset()", {}, (None, None)),
]


async def test_hostile_programs_end_in_time_with_a_typed_outcome() -> None:  # acceptance 74
    wrong: list[Any] = []
    async with open_world() as world:
        for code, limits, expected in HOSTILE:
            outcome = await world.run(code, limits=ProgramLimits(**limits))
            if not _as_expected(outcome, expected):
                wrong.append((code, expected, outcome.error or outcome.returned.json))
        assert await world.value("return 1 + 1") == 2
    assert not wrong, "\n".join(map(str, wrong))


def _as_expected(outcome: ProgramOutcome, expected: Any) -> bool:
    error = outcome.error
    if not isinstance(expected, tuple):
        return error is None and json.loads(outcome.returned.json) == expected
    kind, detail = expected
    if error is None:
        return kind is None
    return (
        error.kind in KINDS
        and outcome.plan is None
        and len(error.message) <= 4000
        and kind in (None, error.kind)
        and detail in (None, error.limit, error.name)
    )


@pytest.mark.shared_data
async def test_the_shared_attacks_end_in_time(record_property: Any) -> None:
    attacks = json.loads(shared_data.data("data", "sandbox", "attacks.json").read_text())
    async with open_world() as world:
        for attack in attacks:
            given = attack["limits"]
            limits = ProgramLimits(**{key: value for key, value in given.items() if key in ("fuel", "cpu")})
            outcome = await world.run(attack["program"], limits=limits, timeout=20.0)
            assert outcome.error is None or outcome.error.kind in KINDS - {"crash"}, (attack["name"], outcome.error)
        assert await world.value("return 1 + 1") == 2
    record_property("attacks", len(attacks))
    print(f"{len(attacks)} shared attacks ran")


async def test_a_program_sees_nothing_of_another_one() -> None:
    async with open_world() as world:
        await world.value("globalThis.secret = 1; Object.prototype.leak = 2; return 1")
        assert await world.value("return typeof secret + typeof ({}).leak") == "undefinedundefined"


async def test_a_program_that_never_answers_ends_at_the_deadline_with_its_worker() -> None:
    async with open_world() as world:
        with trio.move_on_after(1.0) as scope:
            outcome = await world.run("await tickets.slow({})", timeout=0.8)
        assert not scope.cancelled_caught
        assert outcome.error is not None
        assert outcome.error.kind == "deadline"


@pytest.mark.parametrize("code", ["x" * 300_000, "return `" + "a" * 262_144 + "`"])
async def test_a_program_over_the_size_limit_is_refused(code: str) -> None:
    async with open_world() as world:
        error = await world.error(code)
        assert (error.kind, error.limit) == ("limit", "source")

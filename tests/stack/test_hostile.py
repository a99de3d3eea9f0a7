"""Hostile programs against a whole stack: a typed answer within its limit, no power gained, and the stack goes on."""

from __future__ import annotations

import json
import time

import pytest
import trio

from tests import shared_data
from tests.stack.harness import Stack
from tests.stack.wire import Message, StdioClient, facts_of, open_relay, text_of

OURS = {
    "endless loop": "for (;;) {}",
    "endless loop that catches": "for (;;) { try { for (;;) {} } catch (e) {} }",
    "endless recursion": "const f = () => f() + 1; return f()",
    "memory": "const a = []; for (;;) a.push(new Array(100000).fill(7))",
    "long text": "let s = 'x'; for (;;) s += s",
    "many calls": "for (let i = 0; i < 100000; i++) tickets.ticket.get('T-' + i); return 1",
    "console": "for (;;) console.log('x'.repeat(1000))",
    "huge result": "return 'x'.repeat(50_000_000)",
    "prototype": "Object.prototype.status = 'closed'; Array.prototype.push = () => 1; return 1",
    "no end": "await new Promise(() => {}); return 1",
    "module": "return (await import('node:fs')).readFileSync('/etc/passwd', 'utf8')",
    "process": "return process.env",
    "constructor": "return (function(){}).constructor('return this.process || this.require')()?.pid ?? 'nothing'",
    "syntax": "return ((((",
    "thrown nothing": "throw undefined",
    "lone surrogate": "return '\\ud800'",
}
SECONDS = 75
"""Generous: the request's own deadline is a minute."""


def check(answer: Message) -> None:
    """A typed answer: a result, or an error in words. Nothing of the machine is in it."""
    if "error" in answer:
        assert isinstance(answer["error"]["code"], int)
        assert answer["error"]["message"]
    else:
        assert text_of(answer), answer
    whole = json.dumps(answer)
    assert "root:x:" not in whole, "no file was read"
    assert "Traceback" not in whole, "an error is told, not dumped"


async def goes_on(client: StdioClient) -> None:
    """The stack still runs programs, and what the hostile one did to its own world is gone."""
    code = 'const a = []; a.push(1); return [a.length, ({}).status, (await tickets.ticket.get("T-1")).status]'
    answer = await client.call("delta_read", code=code)
    assert facts_of(answer)["returned"] == [1, None, "open"], answer


async def try_all(stack: Stack, programs: dict[str, str]) -> None:
    seconds: dict[str, float] = {}
    async with open_relay(stack) as client:
        for name, program in programs.items():
            began = time.monotonic()
            try:
                with trio.fail_after(SECONDS):
                    check(await client.call("delta_read", code=program))
                with trio.fail_after(SECONDS):
                    await goes_on(client)
            except Exception as error:
                error.add_note(f"the hostile program: {name}")
                raise
            seconds[name] = time.monotonic() - began
    slowest = max(seconds, key=lambda name: seconds[name])
    print(f"{len(programs)} hostile programs, the slowest {seconds[slowest]:.1f} s ({slowest})")


async def test_our_own_hostile_programs_end_in_a_typed_answer(stack: Stack) -> None:
    await try_all(stack, OURS)


@pytest.mark.shared_data
async def test_all_collected_hostile_programs_end_in_a_typed_answer(stack: Stack) -> None:
    attacks = json.loads(shared_data.data("data", "sandbox", "attacks.json").read_text())
    await try_all(stack, {attack["name"]: attack["program"] for attack in attacks})

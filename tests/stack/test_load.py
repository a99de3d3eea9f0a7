"""Two thousand requests at once: refused ones are told so, memory stays bounded, the rest are right."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import trio

from tests.stack.harness import Stack
from tests.stack.processes import descendants
from tests.stack.wire import Message, body, facts_of, open_relay, post_once, text_of

REQUESTS = 2_000
BOUND = 1 << 30
"""Bytes of memory that the whole stack may hold at its highest, workers included."""


@pytest.fixture(autouse=True)
def _many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16_384), hard))


def memory(stack: Stack) -> int:
    """Return the bytes that the stack's processes hold, shared pages counted once."""
    assert stack.process is not None
    total = 0
    for pid in [stack.process.pid, *(process.pid for process in descendants(stack.process.pid))]:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def tally(answers: dict[int, Message]) -> tuple[int, int]:
    """Return how many were right and how many were refused; anything else fails."""
    right = refused = 0
    for number, answer in answers.items():
        if "error" in answer or answer["result"].get("isError"):
            assert any(word in text_of(answer).lower() for word in ("busy", "overload")), answer
            refused += 1
        else:
            assert facts_of(answer)["returned"] == number, answer
            right += 1
    return right, refused


async def watch(stack: Stack, highest: list[int]) -> None:
    while True:
        highest[0] = max(highest[0], await trio.to_thread.run_sync(memory, stack))
        await trio.sleep(0.5)


async def test_over_http(stack: Stack) -> None:
    answers: dict[int, Message] = {}
    highest = [0]
    url = stack.url

    async def ask(number: int) -> None:
        message = body(number, "tools/call", {"name": "delta_read", "arguments": {"code": f"return {number}"}})
        status, headers, answers[number] = await post_once(url, message)
        assert (status == 503) == ("retry-after" in headers), "whoever is refused is told when to come again"

    with trio.fail_after(300):
        async with trio.open_nursery() as outer:
            outer.start_soon(watch, stack, highest)
            async with trio.open_nursery() as nursery:
                for number in range(REQUESTS):
                    nursery.start_soon(ask, number)
            outer.cancel_scope.cancel()
    await check(stack, answers, highest[0])


async def check(stack: Stack, answers: dict[int, Message], highest: int) -> None:
    right, refused = tally(answers)
    print(f"{right} right, {refused} refused, at most {highest >> 20} MiB")
    assert right + refused == REQUESTS
    assert right > 0
    assert highest < BOUND
    assert stack.run("return 1")["returned"] == 1


async def test_over_stdio(stack: Stack) -> None:
    answers: dict[int, Message] = {}
    highest = [0]
    with trio.fail_after(300):
        async with open_relay(stack) as client, trio.open_nursery() as outer:
            outer.start_soon(watch, stack, highest)

            async def ask(number: int) -> None:
                answers[number] = await client.call("delta_read", code=f"return {number}")

            async with trio.open_nursery() as nursery:
                for number in range(REQUESTS):
                    nursery.start_soon(ask, number)
            outer.cancel_scope.cancel()
    await check(stack, answers, highest[0])

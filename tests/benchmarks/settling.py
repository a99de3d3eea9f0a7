"""How soon a cancelled request reaches the connector, and how soon a killed part of the stack is back."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import trio

from delta_actors.mcp import StdioParameters, open_stdio
from tests.benchmarks.tables import Table, median, ms
from tests.stack.harness import Stack, running
from tests.stack.probing import SCRIPT, Probe
from tests.stack.processes import kill, nothing_left_behind
from tests.stack.victims import victims
from tests.stack.wire import open_http, open_relay, text_of

CANCELS = 25
KILLS = 5
VICTIMS = ("transport", "registry", "sandbox", "journal", "zygote", "sandbox zygote")
PATIENT = "[supervision]\nmax_restarts = 1000\nwindow = 10.0\nbackoff = 0.05\nbackoff_max = 0.2\n"
READ = "return await probe.wait({seconds: 60})"
ASK = "return (await probe.item.get('a')).id"
HELD = 'expose = "tools"\n'

Call = Callable[[], Awaitable[object]]


def measure() -> Sequence[Table]:
    """Return both tables; takes about a minute."""
    with nothing_left_behind():
        return [trio.run(cancelled), killed()]


async def cancelled() -> Table:
    """Measure from the client's cancelling to the connector's being told."""
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        direct, programs, passed = Probe(place / "direct"), Probe(place / "probe"), Probe(place / "held", "held")
        parameters = StdioParameters(sys.executable, (str(SCRIPT), str(direct.folder)))
        async with open_stdio(parameters) as client:
            call: Call = partial(client.call_tool, "wait", b'{"seconds":60}')
            rows.append(_row("the connector itself", [await _once(direct, call) for _ in range(CANCELS)]))
        config = "version = 1\n" + programs.config() + passed.config(more=HELD)
        with running(place, config) as stack:
            async with AsyncExitStack() as opened:
                relay = await opened.enter_async_context(open_relay(stack))
                http = await opened.enter_async_context(open_http(stack.url))
                for name, peer in (("stdio", relay), ("HTTP, the stream closed", http)):
                    await _known(peer, "wait")
                    call = partial(peer.call, "wait", seconds=60)
                    rows.append(
                        _row(f"a call passed through, {name}", [await _once(passed, call) for _ in range(CANCELS)])
                    )
                    call = partial(peer.call, "delta_read", code=READ)
                    rows.append(
                        _row(f"a program's read, {name}", [await _once(programs, call) for _ in range(CANCELS)])
                    )
    note = f"From the client's cancelling to the connector's hearing of it; {CANCELS} times each."
    return Table("A cancelled request", note, ("what", "median", "worst"), rows)


async def _known(peer: Any, tool: str) -> None:
    with trio.fail_after(30):
        while all(each["name"] != tool for each in (await peer.request("tools/list"))["result"]["tools"]):
            await trio.sleep(0.1)


async def _once(probe: Probe, call: Call) -> float:
    begun, told = len(probe.events("call", "wait")), len(probe.events("cancelled", "wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        with trio.fail_after(20):
            while len(probe.events("call", "wait")) == begun:
                await trio.sleep(0.005)
        cut = time.monotonic()
        nursery.cancel_scope.cancel()
    with trio.fail_after(20):
        while len(probe.events("cancelled", "wait")) == told:
            await trio.sleep(0.005)
    at: float = probe.events("cancelled", "wait")[-1]["at"]
    return at - cut


def killed() -> Table:
    """Measure from kill -9 to the first program that is answered again."""
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with running(place, "version = 1\n" + PATIENT + Probe(place / "probe").config()) as stack:
            rows += [_row(victim, [trio.run(_back, stack, victim) for _ in range(KILLS)]) for victim in VICTIMS]
    note = (
        f"From kill -9 to the answer of a read program that was sent right after it, over stdio; {KILLS} times each. A "
        "program that ends in an error is sent again. The backoff is set to 0.05 s."
    )
    return Table("A killed process", note, ("killed", "median", "worst"), rows)


async def _back(stack: Stack, victim: str) -> float:
    async with open_relay(stack) as client:
        assert "a" in text_of(await client.call("delta_read", code=ASK))
        with trio.fail_after(20):
            while (pid := victims(stack.status_or_none()).get(victim)) is None:
                await trio.sleep(0.05)
        kill(pid)
        began = time.monotonic()
        with trio.fail_after(30):
            while True:
                answer = await client.call("delta_read", code=ASK)
                if "result" in answer and not answer["result"].get("isError"):
                    return time.monotonic() - began


def _row(name: str, taken: Sequence[float]) -> tuple[str, str, str]:
    return name, ms(median(taken)), ms(max(taken))

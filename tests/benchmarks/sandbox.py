"""Programs in jailed workers against two floors: a bare fork that echoes a byte, and the engine without processes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

import delta_actors.sandbox
from delta_actors.sandbox import source, worker
from delta_actors.sandbox.cache import compiled_guest
from delta_actors.sandbox.engine import GuestEngine
from delta_actors.sandbox.guest import load_prelude
from delta_actors.sandbox.pool import Pool
from delta_actors.sandbox.program import ProgramRun
from delta_actors.sandbox.views import namespaces
from delta_actors.sandbox.zygote import PRELUDE
from delta_protocol.config import ProgramLimits
from delta_protocol.wire.registry import ReadTool, ToolReply
from delta_protocol.wire.sandbox import RunProgram
from delta_protocol.wire.worker import Run, decode_calls
from tests.benchmarks.tables import Table, interleaved, median, ms, percentile
from tests.sandbox.world import CATALOGUE, FROZEN, SEED, STATE, TICKET, ok

RUNS = 30
SEQUENTIAL = 1000
BATCHED = 5000
LIMITS = ProgramLimits(host_calls=10_000, in_flight=10_000, per_connector=10_000, fuel=10**11, cpu=30.0)
ONE = "return 1"
ONE_CALL = "const t = await tickets.ticket.get('T-1'); return t.title"
IN_TURN = (
    f"let n = 0; for (let i = 0; i < {SEQUENTIAL}; i++) n += (await tickets.get_ticket({{id: 'T-' + i}})).n; return n"
)
TOGETHER = (
    f"const all = Array.from({{length: {BATCHED}}}, (_, i) => tickets.get_ticket({{id: 'T-' + i}}));"
    "return (await Promise.all(all)).length"
)
ANSWER = ok(TICKET)


class _Call:
    deadline = float("inf")
    origin = None


class _Registry:
    async def ask(self, request: ReadTool, **_: Any) -> ToolReply:
        return ANSWER


async def _run(pool: Pool, code: str) -> float:
    request = RunProgram(code, CATALOGUE.number, FROZEN, SEED, LIMITS)
    begun = time.perf_counter()
    outcome = await ProgramRun(request, CATALOGUE, _Call(), _Registry()).outcome(pool)  # type: ignore[arg-type]
    taken = time.perf_counter() - begun
    assert outcome.error is None, outcome.error
    return taken


async def _runs(code: str, count: int) -> list[float]:
    pool = Pool(STATE / "sandbox", size=4, memory=64 << 20, cpu=30.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run)
        await _run(pool, ONE)
        times: list[float] = []
        for _ in range(count):
            # The pool refills between programs, as it does between a person's requests.
            await trio.sleep(0.03)
            times.append(await _run(pool, code))
        nursery.cancel_scope.cancel()
    return times


def pooled(code: str, count: int) -> list[float]:
    """Seconds from submitting `code` to its outcome, in a warm jailed worker."""
    return trio.run(_runs, code, count)


def bare(code: str, count: int) -> list[float]:
    """Seconds for `code` in a fresh engine in this process, its host calls answered at once."""
    module = trio.run(compiled_guest, STATE / "sandbox")
    prelude = load_prelude(PRELUDE, Path(delta_actors.sandbox.__file__).with_name("prelude"))
    views = namespaces(CATALOGUE, code)
    run = Run(code, views, FROZEN, SEED, 10**11, 30.0, 64 << 20, 10_000, 1 << 20, 1 << 20, 1 << 16, 200)
    text = msgspec.json.encode(TICKET)
    times: list[float] = []
    for _ in range(count):
        engine = GuestEngine(module, prelude, 64 << 20)
        worker.warm(engine)
        begun = time.perf_counter()
        engine.begin(fuel=run.fuel, cpu=run.cpu, memory=run.memory, now_ms=FROZEN)
        names = [view.alias for view in views] + ["console", "sleep", "fresh"]
        prepared = source.prepare(code, names, "__check")
        engine.start(prepared.text, worker.settings_of(run, prepared))
        while True:
            engine.run_jobs()
            wanted = engine.pump()
            if wanted[:1] == b"D":
                break
            answers = [b"[%d,1,%b]" % (call.id, text) for call in decode_calls(wanted[1:])]
            engine.settle(b"[" + b",".join(answers) + b"]")
        times.append(time.perf_counter() - begun)
    return times


def forked(count: int) -> list[float]:
    """Seconds for fork, one byte there and back over a socket, exit and wait."""
    times: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        ours, theirs = socket.socketpair()
        child = os.fork()
        if not child:
            theirs.send(theirs.recv(1))
            os._exit(0)
        ours.send(b"x")
        ours.recv(1)
        os.waitpid(child, 0)
        times.append(time.perf_counter() - begun)
        ours.close()
        theirs.close()
    return times


def measure() -> Sequence[Table]:
    """Compare them, interleaved."""
    samples = interleaved(
        {
            "fork": partial(forked, RUNS),
            "start": partial(pooled, ONE, RUNS),
            "bare start": partial(bare, ONE, 3),
            "call": partial(pooled, ONE_CALL, RUNS),
            "bare call": partial(bare, ONE_CALL, 3),
            "in turn": partial(pooled, IN_TURN, 1),
            "bare in turn": partial(bare, IN_TURN, 1),
            "together": partial(pooled, TOGETHER, 1),
            "bare together": partial(bare, TOGETHER, 1),
        },
        rounds=3,
    )

    def times(title: str, name: str) -> list[str]:
        own = samples[name]
        return [title, ms(median(own)), ms(percentile(own, 0.95)), ms(min(own))]

    def rates(title: str, name: str, count: int) -> list[str]:
        own = samples[name]
        return [title, f"{count / median(own):,.0f}", f"{count / min(own):,.0f}"]

    start = Table(
        "Starting a program",
        "From submitting it to its outcome; the worker is warm and jailed, the host answers at once.",
        ["", "p50", "p95", "best"],
        [
            times("`return 1`", "start"),
            times("one host call", "call"),
            times("floor: `return 1` in the bare engine", "bare start"),
            times("floor: one host call in the bare engine", "bare call"),
            times("floor: fork, one byte there and back, exit", "fork"),
        ],
    )
    calls = Table(
        "Host calls per second",
        f"{SEQUENTIAL} one after the other; {BATCHED} at once. Every call is checked, remembered and kept.",
        ["", "median", "best"],
        [
            rates("one after the other", "in turn", SEQUENTIAL),
            rates("floor: the same in the bare engine", "bare in turn", SEQUENTIAL),
            rates("at once", "together", BATCHED),
            rates("floor: the same in the bare engine", "bare together", BATCHED),
        ],
    )
    return [start, calls]

"""A link between two processes against asyncio, uvloop and bare sockets, with the same messages in the same frames."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import trio

from delta_actors.runtime.birth import Birth, listen, make_credentials
from delta_actors.runtime.control import open_control
from delta_actors.runtime.host import open_ref
from delta_actors.runtime.schema import schema_of
from delta_protocol.config import ActorConfig, StackConfig
from delta_protocol.framing import FrameReader, FrameWriter
from delta_protocol.wire.control import Start
from delta_protocol.wire.envelope import Ask, FromCallee, Reply, body
from delta_protocol.wire.message import Role
from tests.benchmarks.tables import Table, interleaved, median, percentile
from tests.benchmarks.targets.link_echo import INBOX, QUESTION, ROLE, EchoActor, Found, Lookup, LookupInWorker, runner

WARM = 200
ROUND_TRIPS = 1000
CALLS = 6400
WINDOWS = (32, 256)
CONFIG = StackConfig(actors={Role.RESULTS: ActorConfig(credit=max(WINDOWS))})
TARGETS = "tests.benchmarks.targets.link_echo"

Measured = list[float]
"""Seconds of each round trip, then for each of `WINDOWS` calls per second and processor seconds per call."""


def cpu(pid: int) -> float:
    """Return the seconds of processor time that this process and `pid` have used."""
    return time.process_time() + int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


async def drive(
    ask: Callable[[], Awaitable[object]], together: Callable[[int], Awaitable[object]], pid: int
) -> Measured:
    """Measure a caller: one at a time, then `window` tasks that ask one after another."""
    for _ in range(WARM):
        await ask()
    measured: Measured = []
    for _ in range(ROUND_TRIPS):
        began = time.perf_counter()
        await ask()
        measured.append(time.perf_counter() - began)
    for window in WINDOWS:
        began, used = time.perf_counter(), cpu(pid)
        await together(window)
        measured += [CALLS / (time.perf_counter() - began), (cpu(pid) - used) / CALLS]
    return measured


@contextmanager
def peer_process(name: str) -> Iterator[tuple[socket.socket, int]]:
    """Run a peer's callee; give the caller's end, and its pid."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", TARGETS, name, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    with process, ours:
        yield ours, process.pid


class CallerProtocol(asyncio.Protocol):
    """The asyncio caller: futures by id, one write per loop pass."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._decode = msgspec.msgpack.Decoder(FromCallee).decode
        self._reply = msgspec.msgpack.Decoder(Found).decode
        self._calls: dict[int, asyncio.Future[Found]] = {}
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            reply = self._decode(message)
            assert isinstance(reply, Reply)
            self._calls.pop(reply.id).set_result(self._reply(reply.body))

    def _flush(self) -> None:
        self.transport.write(bytes(self._writer.buffer))
        self._writer.sent(len(self._writer.buffer))

    async def ask(self) -> Found:
        self._number += 1
        future: asyncio.Future[Found] = self._loop.create_future()
        self._calls[self._number] = future
        if not self._writer.buffer:
            self._loop.call_soon(self._flush)
        self._writer.post(Ask(self._number, 0, body(Lookup(*QUESTION))))
        return await future


def measure_loop(name: str) -> Measured:
    """Measure asyncio or uvloop."""

    async def main(sock: socket.socket, pid: int) -> Measured:
        _, caller = await asyncio.get_running_loop().create_connection(CallerProtocol, sock=sock)

        async def several(count: int) -> None:
            for _ in range(count):
                await caller.ask()

        async def together(window: int) -> None:
            await asyncio.gather(*(several(CALLS // window) for _ in range(window)))

        measured = await drive(caller.ask, together, pid)
        caller.transport.close()
        return measured

    with peer_process(name) as (sock, pid):
        result: Measured = runner(name)(main(sock, pid))
        return result


def measure_blocking() -> Measured:
    """Measure a loop without any loop: a window of asks kept full by hand."""
    reader, decode = FrameReader(), msgspec.msgpack.Decoder(FromCallee).decode

    def exchange(sock: socket.socket, count: int, window: int) -> None:
        sent = received = 0
        replies: deque[object] = deque(maxlen=1)
        while received < count:
            writer = FrameWriter()
            while sent < count and sent - received < window:
                sent += 1
                writer.post(Ask(sent, 0, body(Lookup(*QUESTION))))
            if writer.buffer:
                sock.sendall(writer.buffer)
            for message in reader.feed(sock.recv(64 << 10)):
                replies.append(decode(message))
                received += 1

    measured: Measured = []
    with peer_process("blocking") as (sock, pid):
        exchange(sock, WARM, 1)
        for _ in range(ROUND_TRIPS):
            began = time.perf_counter()
            exchange(sock, 1, 1)
            measured.append(time.perf_counter() - began)
        for window in WINDOWS:
            began, used = time.perf_counter(), cpu(pid)
            exchange(sock, CALLS, window)
            measured += [CALLS / (time.perf_counter() - began), (cpu(pid) - used) / CALLS]
    return measured


def measure_link(request: type[Lookup | LookupInWorker]) -> Measured:
    """Measure a link as an actor has it: a ref, greeted, to an actor in a process of its own."""
    return trio.run(_measure_link, request)


async def _measure_link(request: type[Lookup | LookupInWorker]) -> Measured:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        listener = listen(path / "link.sock")
        credentials = make_credentials({ROLE: str(path / "link.sock")}, {"operator": frozenset({ROLE})})
        ours, theirs = socket.socketpair()
        with listener, theirs:
            fds = [theirs.fileno(), listener.fileno()]
            command = [sys.executable, "-m", "delta_actors.runtime.process", *map(str, fds)]
            process = subprocess.Popen(command, pass_fds=fds)
        factory = f"{EchoActor.__module__}:{EchoActor.__qualname__}"
        callee, caller = credentials[ROLE], credentials["operator"]
        start = Start(ROLE, 1, CONFIG, directory, directory, ("link",), (), callee.admissions, factory)
        async with trio.open_nursery() as nursery, open_control(ours) as control:
            await control.ask(start)
            birth = Birth("operator", 1, CONFIG, path, path, {}, caller.grants)
            ref = open_ref(birth, ROLE, schema_of(INBOX), nursery)

            async def several(count: int) -> None:
                for _ in range(count):
                    await ref.ask(request(*QUESTION))

            async def together(window: int) -> None:
                async with trio.open_nursery() as asking:
                    for _ in range(window):
                        asking.start_soon(several, CALLS // window)

            measured = await drive(lambda: ref.ask(request(*QUESTION)), together, process.pid)
            nursery.cancel_scope.cancel()
        process.wait()
        return measured


def measure() -> Sequence[Table]:
    """Compare all of them, interleaved."""
    peers: dict[str, Callable[[], Measured]] = {
        "bare blocking sockets": measure_blocking,
        "uvloop": partial(measure_loop, "uvloop"),
        "asyncio": partial(measure_loop, "asyncio"),
        "link, inline handler": partial(measure_link, Lookup),
        "link, handler in a worker": partial(measure_link, LookupInWorker),
    }
    if importlib.util.find_spec("uvloop") is None:
        del peers["uvloop"]
    samples = interleaved(peers)
    reference = "uvloop" if "uvloop" in peers else "asyncio"
    rows = [_row(name, _figures(samples[name]), _figures(samples[reference])) for name in peers]
    note = (
        f"About 100 bytes each way between two processes. Ratios to {reference}: a smaller one is better for round "
        f"trips and processor time, a greater one for calls per second. Only processor time is steady under load."
    )
    columns = ["", "round trip p50", "p99", "ratio"]
    for window in WINDOWS:
        columns += [f"{window} in flight, calls/s", "ratio", "CPU, both ends", "ratio"]
    return [Table("A link between two actors", note, columns, rows)]


def _figures(samples: Sequence[float]) -> tuple[float, float, list[float]]:
    """Split the interleaved samples of all rounds: p50, p99, then rate and processor time per window."""
    size = ROUND_TRIPS + 2 * len(WINDOWS)
    rounds = [samples[start : start + size] for start in range(0, len(samples), size)]
    trips = [trip for one in rounds for trip in one[:ROUND_TRIPS]]
    rates = [median([one[ROUND_TRIPS + number] for one in rounds]) for number in range(2 * len(WINDOWS))]
    return median(trips), percentile(trips, 0.99), rates


def _row(
    name: str, own: tuple[float, float, list[float]], reference: tuple[float, float, list[float]]
) -> Sequence[str]:
    trip, slow, rates = own
    cells = [name, f"{trip * 1e6:.0f} µs", f"{slow * 1e6:.0f} µs", f"{trip / reference[0]:.2f}"]
    for number, (figure, other) in enumerate(zip(rates, reference[2], strict=True)):
        cells += [f"{figure * 1e6:.1f} µs" if number % 2 else f"{figure:,.0f}", f"{figure / other:.2f}"]
    return cells

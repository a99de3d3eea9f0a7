"""A worker with full native code execution can send any bytes: it is killed, the program fails typed, nothing else."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from delta_actors.sandbox.pool import Worker
from delta_actors.sandbox.program import ProgramRun
from delta_protocol.config import ProgramLimits
from delta_protocol.errors import ProtocolViolation
from delta_protocol.wire.registry import ReadTool, ToolReply
from delta_protocol.wire.sandbox import ProgramOutcome, RunProgram
from delta_protocol.wire.worker import FrameReader, Kind, decode_calls, decode_done, frame, tag, untag
from tests.sandbox.world import CATALOGUE, FROZEN, SEED, TICKET, ok

FUEL = bytes(8)


def done(entities: Any = (), writes: Any = (), returned: Any = 1, **more: Any) -> bytes:
    text = {
        "type": "ok",
        "returned": returned,
        "entities": entities,
        "writes": writes,
        "console": [],
        "notes": [],
        **more,
    }
    return frame(Kind.DONE, FUEL + json.dumps(text).encode())


def calls(*items: Any) -> bytes:
    return frame(Kind.CALLS, json.dumps(items).encode())


READ = [1, "read", "tickets", "get_ticket", False, {"id": "T-1"}, 0]
CHANGED = {**TICKET, "status": "closed"}


def entity(**changes: Any) -> list[Any]:
    record = {
        "connector": "tickets", "collection": "ticket", "key": "T-1", "sources": [[1, []]], "final": CHANGED,
        "mutations": [["set", ["status"], "closed", 0, 0, 1]], "fields": [], "seq": 1, "line": 1,
    }  # fmt: skip
    return list({**record, **changes}.values())


def write(**changes: Any) -> list[Any]:
    record = {
        "id": 1, "connector": "tickets", "tool": "update_ticket", "arguments": {"id": "T-1", "status": "x"}, "seq": 1,
        "line": 1, "column": 1, "collection": "", "operation": "call", "key": None, "sources": [], "initial": None,
        "final": None, "mutations": [],
    }  # fmt: skip
    return list({**record, **changes}.values())


STREAMS: dict[str, list[bytes]] = {
    "huge length": [b"\xff\xff\xff\xff" + b"x" * 100],
    "zero length": [bytes(4)],
    "unknown kind": [frame(Kind.DONE).replace(b"\x07", b"\x63")],
    "a kind of ours": [frame(Kind.RUN, b"{}")],
    "ready again": [frame(Kind.READY)],
    "ending with text": [frame(Kind.ENDING, b"x")],
    "deep calls": [frame(Kind.CALLS, b"[" * 200_000)],
    "bad utf-8": [frame(Kind.CALLS, b'[[1,"a","\xff"]]')],
    "not a list": [frame(Kind.CALLS, b'{"a":1}')],
    "id as text": [calls(["x", *READ[1:]])],
    "id zero": [calls([0, *READ[1:]])],
    "tool no text": [calls([1, "read", "tickets", {"a": 1}, False, {}, 0])],
    "unknown kind of call": [calls([1, "write", *READ[2:]])],
    "arguments no object": [calls([1, "read", "tickets", "get_ticket", False, [1], 0])],
    "infinite": [frame(Kind.CALLS, b'[[1,"sleep","","",false,{},1e999]]')],
    "too many fields": [calls([*READ, 1])],
    "the same number twice": [calls(READ, READ)],
    "more calls than allowed": [calls(*([n, *READ[1:]] for n in range(1, 400)))],
    "a write as a read": [calls([1, "read", "tickets", "delete_ticket", False, {"id": "T-1"}, 0])],
    "an unknown tool": [calls([1, "read", "tickets", "nothing", False, {}, 0])],
    "an unknown connector": [calls([1, "read", "other", "get_ticket", False, {}, 0])],
    "a tool switched off": [calls([1, "read", "tickets", "hidden", False, {}, 0]), done()],
    "a malformed tag": [calls([1, "read", "tickets", "echo", False, {"value": "\x01r[1,"}, 0])],
    "done too short": [frame(Kind.DONE, b"{}")],
    "done no object": [frame(Kind.DONE, FUEL + b"5")],
    "done with NaN": [frame(Kind.DONE, FUEL + b'{"type":"ok","returned":NaN}')],
    "an unread entity": [done([entity()])],
    "another tool's result": [calls([1, "read", "tickets", "echo", False, {}, 0]), done([entity()])],
    "another entity's key": [calls(READ), done([entity(key="T-2")])],
    "a path that is not there": [calls(READ), done([entity(sources=[[1, ["nope"]]])])],
    "another final value": [calls(READ), done([entity(final={**TICKET, "status": "open"})])],
    "a hidden field in the end": [calls(READ), done([entity(final={**CHANGED, "admin": True})])],
    "a mutation that does not fit": [calls(READ), done([entity(mutations=[["delete", ["nope"], None, 0, 0, 1]])])],
    "a splice out of range": [calls(READ), done([entity(mutations=[["splice", ["labels"], [], 5, 9, 1]])])],
    "an append of no list": [calls(READ), done([entity(mutations=[["append", ["labels"], 5, 0, 0, 1]])])],
    "an unknown collection": [calls(READ), done([entity(collection="user")])],
    "an unknown mutation": [calls(READ), done([entity(mutations=[["move", [], 1, 0, 0, 1]])])],
    "a read as a write": [done(writes=[write(tool="get_ticket", arguments={"id": "T-1"})])],
    "a write of nothing known": [done(writes=[write(tool="nothing")])],
    "writes out of order": [done(writes=[write(id=2)])],
    "a reference to itself": [done(writes=[write(arguments={"id": '\x01r[1,["id"]]'})])],
    "a reference to nothing": [done(returned="\x01r[5,[]]")],
    "a creation by another tool": [done(writes=[write(operation="create", collection="ticket", initial={}, final={})])],
    "a creation that ends otherwise": [
        done(writes=[write(tool="create_ticket", arguments={"title": "a"}, operation="create", collection="ticket",
                           initial={"title": "a"}, final={"title": "b"})])
    ],
    "a partial frame": [b"\x00\x00\x00\x10\x03ab"],
    "nothing": [],
}  # fmt: skip


class _Call:
    deadline = float("inf")
    origin = None


class _Registry:
    async def ask(self, request: ReadTool, **_: Any) -> ToolReply:
        return ok(TICKET)


class _Generation:
    def __init__(self) -> None:
        self.dead = trio.Event()
        self.killed = 0

    async def kill(self, worker: Worker) -> None:
        self.killed += 1


class _Pool:
    def __init__(self, stream: trio.SocketStream, generation: _Generation) -> None:
        self._worker = Worker(stream, generation, 1)  # type: ignore[arg-type]
        self._worker.status = 256  # it left with 1
        self._worker.ended.set()

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        try:
            yield self._worker
        finally:
            await self._worker.end()


async def run_rogue(frames: list[bytes]) -> tuple[ProgramOutcome, int]:
    ours, theirs = socket.socketpair()
    rogue = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    generation = _Generation()
    pool = _Pool(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), generation)
    request = RunProgram("await tickets", CATALOGUE.number, FROZEN, SEED, ProgramLimits())
    outcome: list[ProgramOutcome] = []

    async def speak() -> None:
        try:
            for number, data in enumerate(frames):
                await rogue.receive_some(1 << 20)
                await rogue.send_all(data)
                if number == len(frames) - 1:
                    await rogue.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if not frames:
            await rogue.aclose()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(speak)
            program = ProgramRun(request, CATALOGUE, _Call(), _Registry())  # type: ignore[arg-type]
            outcome.append(await program.outcome(pool))  # type: ignore[arg-type]
            nursery.cancel_scope.cancel()
    await trio.aclose_forcefully(rogue)
    return outcome[0], generation.killed


@pytest.mark.parametrize("name", STREAMS)
async def test_rogue_frames_end_the_worker_with_a_typed_error(name: str) -> None:
    outcome, killed = await run_rogue(STREAMS[name])
    assert killed == 1
    if name == "a tool switched off":
        # Its answer is an error that the program may catch; the rest of this stream is honest.
        assert outcome.error is None
        return
    assert outcome.error is not None
    assert outcome.error.kind == "crash", outcome.error
    assert outcome.plan is None


async def test_honest_frames_by_hand_are_accepted() -> None:
    outcome, _ = await run_rogue([calls(READ), done([entity()], [write(seq=2)])])
    assert outcome.error is None, outcome.error
    assert outcome.plan is not None


@given(st.binary(max_size=200), st.lists(st.integers(1, 50), max_size=5))
def test_random_bytes_give_frames_or_a_violation(data: bytes, cuts: list[int]) -> None:
    reader = FrameReader()
    try:
        position = 0
        for cut in [*cuts, len(data)]:
            for kind, payload in reader.feed(data[position : position + cut]):
                (decode_calls if kind is Kind.CALLS else decode_done)(payload)
            position += cut
    except ProtocolViolation:
        pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from(["\x01i5", "\x01", "\x01s", "\x01r[1,[]]"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_tagged_values_come_back_as_they_were(value: Any) -> None:
    text = tag(value)
    assert untag(text, what="value") == value
    assert untag(msgspec.Raw(text), what="value") == value


@given(st.lists(st.tuples(st.sampled_from(sorted(Kind)), st.binary(max_size=60)), max_size=8), st.integers(1, 30))
def test_frames_round_trip_however_they_are_cut(frames: list[tuple[Kind, bytes]], size: int) -> None:
    data = b"".join(frame(kind, payload) for kind, payload in frames)
    reader = FrameReader(frozenset(Kind))
    received = [item for start in range(0, len(data), size) for item in reader.feed(data[start : start + size])]
    assert received == frames

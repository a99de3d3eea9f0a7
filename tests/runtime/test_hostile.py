"""What a peer that is no actor of ours can do to one: lose its own link, and nothing else."""

from __future__ import annotations

import socket
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_actors.runtime import System, greeting, open_actors
from delta_actors.runtime.current import NOTHING
from delta_actors.runtime.schema import schema_of
from delta_protocol.errors import ActorCrashed
from delta_protocol.framing import MAX_FRAME, FrameReader, FrameWriter
from delta_protocol.wire.envelope import ITEM_WINDOW, AnswerUp, Ask, Cancel, Down, More, Tell, body
from delta_protocol.wire.hello import Hello, Unwelcome, Welcome
from delta_protocol.wire.message import Item, Role
from tests.runtime.actors import ASKS, CREDIT, FRONT, INBOX, WORKER, Echo, FrontActor, Sleep, Words, WorkerActor, config

SCHEMA = schema_of(INBOX, WorkerActor.items)
ADMITTED = Role.TRANSPORT


def frames(*messages: object) -> bytes:
    writer = FrameWriter()
    for message in messages:
        writer.post(message)
    return bytes(writer.buffer)


class Stranger:
    """A raw connection to the worker."""

    def __init__(self, system: System) -> None:
        ref = system.ref(WORKER, as_=ADMITTED)
        self.token = ref._token
        self.address = ref._address

    def hello(self, **changes: object) -> Hello:
        honest = Hello(ADMITTED, WORKER, 0, self.token, SCHEMA.digest)
        return msgspec.structs.replace(honest, **changes)

    async def __aenter__(self) -> Self:
        self.stream = await trio.open_unix_socket(self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stream.aclose()

    async def send(self, data: bytes) -> None:
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError:
            pass

    async def rest(self) -> bytes:
        """Everything until the worker closes."""
        received = b""
        try:
            while data := await self.stream.receive_some():
                received += data
        except trio.BrokenResourceError:
            pass
        return received


async def still_serves(system: System) -> None:
    with trio.fail_after(20):
        assert await system.ref(WORKER, as_=ADMITTED).ask(Echo(b"there?")) == b"there?"


@pytest.mark.parametrize(
    "changes",
    [
        {"token": b"wrong" * 8},
        {"token": b""},
        {"caller": "operator"},
        {"caller": "supervisor"},
        {"caller": FRONT},
        {"callee": FRONT},
        {"digest": b"old" * 10},
    ],
    ids=lambda changes: next(f"{name}={value!r}" for name, value in changes.items()),
)
async def test_a_greeting_that_is_wrong_anywhere_is_refused_with_a_reason(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    async with open_actors({WORKER: WorkerActor}, config=config(), state_dir=tmp_path, asks=ASKS) as system:
        with trio.fail_after(20):
            async with Stranger(system) as stranger:
                await stranger.send(frames(stranger.hello(**changes)))
                [message] = FrameReader().feed(await stranger.rest())
        answer = msgspec.msgpack.decode(message, type=Unwelcome)
        assert answer.failure.code == "refused"
        assert stranger.token.hex() not in answer.failure.message
        await still_serves(system)


async def test_different_schemas_are_told_to_restart(tmp_path: Path) -> None:
    async with open_actors({WORKER: WorkerActor}, config=config(), state_dir=tmp_path, asks=ASKS) as system:
        async with Stranger(system) as stranger:
            await stranger.send(frames(stranger.hello(digest=b"older")))
            [message] = FrameReader().feed(await stranger.rest())
        assert "restart the whole stack" in msgspec.msgpack.decode(message, type=Unwelcome).failure.message


async def test_who_does_not_greet_in_time_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "HELLO_TIMEOUT", 0.1)
    async with open_actors({WORKER: WorkerActor}, config=config(), state_dir=tmp_path, asks=ASKS) as system:
        with trio.fail_after(20):
            async with Stranger(system) as stranger:
                await stranger.send(b"\x10\0")
                assert await stranger.rest() == b""
        await still_serves(system)


OPENINGS: list[Callable[[Hello], bytes]] = [
    lambda hello: b"GET / HTTP/1.1\r\n\r\n",
    lambda hello: struct.pack("<I", MAX_FRAME + 1),
    lambda hello: struct.pack("<I", 5000) + b"x" * 5000,
    lambda hello: frames(Ask(1, 0, body(Echo(b"first")))),
    lambda hello: frames(hello, hello),
    lambda hello: frames(hello, Ask(1, 0, body(Echo(b"too soon"))))[:-1] + b"\xc1",
]


@pytest.mark.parametrize("number", range(len(OPENINGS)))
async def test_whatever_is_no_greeting_closes_the_link(tmp_path: Path, number: int) -> None:
    async with open_actors({WORKER: WorkerActor}, config=config(), state_dir=tmp_path, asks=ASKS) as system:
        with trio.fail_after(20):
            async with Stranger(system) as stranger:
                await stranger.send(OPENINGS[number](stranger.hello()))
                await stranger.rest()
        await still_serves(system)


async def greeted(system: System, sent: bytes, *, half: bool = False) -> bytes:
    """Greet honestly, send `sent`, and return what came back until the worker closed or went quiet."""
    async with Stranger(system) as stranger:
        await stranger.send(frames(stranger.hello()))
        reader = FrameReader()
        while not (messages := reader.feed(await stranger.stream.receive_some())):
            pass
        msgspec.msgpack.decode(messages[0], type=Welcome)
        await stranger.send(sent)
        if half:
            return b""
        with trio.move_on_after(0.05):
            return await stranger.rest()
    return b"open"


async def test_more_calls_than_granted_break_the_link(tmp_path: Path) -> None:
    async with open_actors({WORKER: WorkerActor}, config=config(), state_dir=tmp_path, asks=ASKS) as system:
        flood = frames(*(Ask(number, 0, body(Sleep("s", 60))) for number in range(CREDIT + 1)))
        assert await greeted(system, flood) != b"open"
        await still_serves(system)
        assert system.statistics(WORKER).in_flight == 0


async def test_a_call_number_used_twice_breaks_the_link(tmp_path: Path) -> None:
    async with open_actors({WORKER: WorkerActor}, config=config(), state_dir=tmp_path, asks=ASKS) as system:
        twice = frames(Ask(1, 0, body(Sleep("s", 60))), Ask(1, 0, body(Sleep("s", 60))))
        assert await greeted(system, twice) != b"open"
        await still_serves(system)


async def test_items_that_nobody_took_are_bounded_by_the_window() -> None:
    ours, theirs = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))

    async def flood() -> None:
        await stream.receive_some()
        await stream.send_all(frames(Welcome(WORKER, 1, CREDIT, SCHEMA.digest)))
        await stream.receive_some()
        await stream.send_all(frames(*(Down(1, body(Words("more"))) for _ in range(ITEM_WINDOW + 2))))

    async def busy(_: Item) -> None:
        await link.closed.wait()

    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        with trio.fail_after(20):
            me = greeting.Identity(ADMITTED)
            link = await greeting.greet(ours, me=me, callee=WORKER, token=b"", schema=SCHEMA)
            nursery.start_soon(link.serve)
            with pytest.raises(ActorCrashed, match="more than 16 items"):
                await link.ask(Echo(b"x"), NOTHING, listener=busy)


def in_a_system(check: Callable[[System], object]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            actors = {WORKER: WorkerActor, FRONT: FrontActor}
            async with open_actors(actors, config=config(), state_dir=Path(directory), asks=ASKS) as system:
                await check(system)  # type: ignore[misc]
                await still_serves(system)
                assert system.restarts(WORKER) == 0

    trio.run(main)


numbers = st.integers(0, 5)
raw = st.one_of(st.binary(max_size=20), st.just(msgspec.msgpack.encode(Echo(b"x"))), st.just(b"\x91\xa4Echo"))
envelopes = st.one_of(
    st.builds(Ask, numbers, st.just(0), raw.map(msgspec.Raw)),
    st.builds(Tell, raw.map(msgspec.Raw)),
    st.builds(Cancel, numbers),
    st.builds(More, numbers, st.integers(-3, 100)),
    st.builds(AnswerUp, numbers, numbers, raw.map(msgspec.Raw)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(envelopes, max_size=12), st.booleans())
def test_any_sequence_of_envelopes_leaves_the_actor_serving(sent: list[object], half: bool) -> None:
    async def check(system: System) -> None:
        await greeted(system, frames(*sent)[: -1 if half else None], half=half)

    in_a_system(check)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000), st.booleans())
def test_random_bytes_after_the_greeting_leave_the_actor_serving(sent: bytes, half: bool) -> None:
    async def check(system: System) -> None:
        await greeted(system, sent, half=half)

    in_a_system(check)

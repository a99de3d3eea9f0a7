"""Standard input and output as streams: nothing is lost or mixed up when the pipe is full, closed or read slowly."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial

import pytest
import trio
import trio.testing

from delta_actors.mcp import DeltaServer, RequestContext
from delta_actors.mcp.stdio import PipeStream
from tests.mcp.samples import INITIALIZE, STDIO, note, request

BIG = 300_000
"""Characters: more than a pipe holds."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


def talking_server() -> DeltaServer:
    server = DeltaServer("talking", "1")

    @server.tool()
    def big(letter: str) -> str:
        return letter * BIG

    @server.tool()
    async def steps(context: RequestContext) -> str:
        for number in range(1, 4):
            await context.progress(number, 3)
        return "stepped"

    return server


async def test_answers_longer_than_a_pipe_arrive_whole_and_in_order_however_slowly_they_are_read() -> None:
    to_server, from_server = os.pipe(), os.pipe()
    async with PipeStream(to_server[0]) as receive, PipeStream(from_server[1]) as send:
        client_send, client_receive = PipeStream(to_server[1]), PipeStream(from_server[0])
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await talking_server().serve_lines(receive, send, principal=STDIO)
                await send.aclose()

            nursery.start_soon(serve)
            calls = [
                request(1, "tools/call", name="big", arguments={"letter": "a"}),
                request(2, "tools/call", name="steps", arguments={}, _meta={"progressToken": 7}),
                request(3, "tools/call", name="big", arguments={"letter": "b"}),
                request(4, "tools/call", name="nothing", arguments={}),
            ]
            for message in (INITIALIZE, note("notifications/initialized"), *calls):
                await client_send.send_all(json.dumps(message).encode() + b"\n")
            await client_send.aclose()
            heard = b""
            with trio.fail_after(30):
                while data := await client_receive.receive_some(4096):
                    heard += data
                    await trio.lowlevel.checkpoint()
        await client_receive.aclose()
    messages = [json.loads(line) for line in heard.splitlines()]
    answers = {message["id"]: message for message in messages if "id" in message}
    assert set(answers) == {0, 1, 2, 3, 4}
    assert answers[1]["result"]["content"][0]["text"] == "a" * BIG
    assert answers[3]["result"]["content"][0]["text"] == "b" * BIG
    about_steps = [message for message in messages if message.get("id") == 2 or "method" in message]
    assert [message.get("method") for message in about_steps] == ["notifications/progress"] * 3 + [None]


async def test_a_write_waits_for_room_and_a_read_for_data(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    async with PipeStream(reading) as receive, PipeStream(writing) as send:
        sent = b"x" * (1 << 20)
        assert 0 < send.send_now(sent) < len(sent)
        got = bytearray(await receive.receive_some(1 << 20))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send.send_all, sent)
            with trio.fail_after(10):
                while len(got) < len(sent):
                    got += await receive.receive_some(1 << 20)
        assert set(got) == {ord("x")}


async def test_a_reader_that_is_gone_and_an_end_that_is_closed_are_told(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    receive, send = PipeStream(reading), PipeStream(writing)
    await receive.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await send.send_all(b"x")
    await send.aclose()
    with pytest.raises(trio.ClosedResourceError):
        send.send_now(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await receive.receive_some()


async def test_who_waits_for_data_is_woken_by_closing_and_by_cancelling(pipe: tuple[int, int]) -> None:
    receive = PipeStream(pipe[0])
    with trio.move_on_after(0.01) as scope:
        await receive.receive_some()
    assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await receive.receive_some()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await receive.aclose()


async def test_a_client_that_does_not_read_is_no_longer_read_from() -> None:
    """acceptance 55: nothing grows without bound."""
    served = 0
    server = DeltaServer("unread", "1")

    @server.tool()
    def big() -> str:
        nonlocal served
        served += 1
        return "x" * BIG

    to_server, from_server = os.pipe(), os.pipe()
    async with PipeStream(to_server[0]) as receive, PipeStream(from_server[1]) as send:
        async with PipeStream(to_server[1]) as client, trio.open_nursery() as nursery:
            nursery.start_soon(partial(server.serve_lines, receive, send, principal=STDIO))
            await client.send_all(json.dumps(INITIALIZE).encode() + b"\n")

            async def ask() -> None:
                for number in range(3_000):
                    await client.send_all(json.dumps(request(number, "tools/call", name="big")).encode() + b"\n")

            nursery.start_soon(ask)
            with trio.fail_after(30):
                await trio.testing.wait_all_tasks_blocked(0.3)
            nursery.cancel_scope.cancel()
    os.close(from_server[0])
    assert 0 < served < 200

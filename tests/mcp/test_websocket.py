"""MCP over a WebSocket on the endpoint's path: both eras, the checks of the handshake, bounds, and the end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio_websocket
from trio_websocket import WebSocketConnection

from delta_protocol.errors import Refused
from delta_protocol.mcp.errors import OVERLOADED
from delta_protocol.wire.message import Principal
from tests.mcp.samples import INITIALIZE, Log, modern, note, request, sample_server
from tests.mcp.web import Site, site


@asynccontextmanager
async def connected(web: Site) -> AsyncGenerator[WebSocketConnection, None]:
    """A client whose stream is closed whatever happened: the library leaves that to us where the server ended it."""
    async with await trio.open_tcp_stream("127.0.0.1", web.port) as stream, trio.open_nursery() as nursery:
        yield await trio_websocket.wrap_client_stream(nursery, stream, "localhost", "/mcp", subprotocols=["mcp"])
        nursery.cancel_scope.cancel()


def upgrade(*lines: str) -> bytes:
    """The opening of a WebSocket, with `lines` among its headers."""
    own = ("Host: localhost", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    return "\r\n".join(("GET /mcp HTTP/1.1", *own, key, *lines, "", "")).encode()


async def hear(socket: WebSocketConnection) -> Any:
    with trio.fail_after(30):
        return json.loads(await socket.get_message())


async def ask(socket: WebSocketConnection, message: Any) -> Any:
    await socket.send_message(json.dumps(message))
    return await hear(socket)


async def test_both_eras_are_spoken_on_one_socket() -> None:
    async with site(sample_server(Log())) as web, connected(web) as socket:
        assert socket.subprotocol == "mcp"
        answer = await ask(socket, modern(1, "tools/call", name="add", arguments={"a": 1, "b": 2}))
        assert answer["result"]["resultType"] == "complete"
        assert (await ask(socket, INITIALIZE))["result"]["protocolVersion"] == "2025-11-25"
        await socket.send_message(json.dumps(note("notifications/initialized")))
        await socket.send_message(json.dumps(request(2, "tools/call", name="greet", arguments={})))
        question = await hear(socket)
        assert question["method"] == "elicitation/create"
        given = {"action": "accept", "content": {"name": "Ada"}}
        question = await ask(socket, {"jsonrpc": "2.0", "id": question["id"], "result": given})
        assert question["method"] == "roots/list"
        result = {"roots": [{"uri": "file:///"}]}
        answer = await ask(socket, {"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert answer["result"]["content"][0]["text"] == "Hello Ada of file:///"


@pytest.mark.parametrize(
    ("headers", "subprotocols", "status"),
    [
        ({"Origin": "https://evil.test"}, ("Sec-WebSocket-Protocol: mcp",), 403),
        ({}, ("Sec-WebSocket-Protocol: other",), 400),
        ({}, (), 400),
        ({"Authorization": "Bearer wrong"}, ("Sec-WebSocket-Protocol: mcp",), 401),
    ],
)
async def test_the_handshake_is_refused_as_a_request_would_be(
    headers: dict[str, str], subprotocols: tuple[str, ...], status: int
) -> None:
    """acceptance 69."""

    async def authenticate(token: str | None, _peer: str | None) -> Principal:
        await trio.lowlevel.checkpoint()
        if token == "wrong":
            raise Refused("unknown token", error="invalid_token")
        return Principal("ada", "token")

    async with site(sample_server(Log()), authenticate=authenticate) as web:
        opening = upgrade(*[f"{name}: {value}" for name, value in headers.items()], *subprotocols)
        async with await trio.open_tcp_stream("127.0.0.1", web.port) as stream:
            await stream.send_all(opening)
            with trio.fail_after(20):
                head, _, body = b"".join([part async for part in stream]).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert json.loads(body)["error"]["message"]


async def test_a_client_that_leaves_cancels_what_it_began_and_a_notification_does_too() -> None:
    log = Log()
    async with site(sample_server(log)) as web:
        async with connected(web) as socket:
            await socket.send_message(json.dumps(modern(1, "tools/call", name="wait", arguments={})))
            while not log.started:
                await trio.sleep(0.01)
            await socket.send_message(json.dumps(note("notifications/cancelled", requestId=1)))
            with trio.fail_after(20):
                await log.cancelled.wait()
            log.cancelled = trio.Event()
            await socket.send_message(json.dumps(modern(2, "tools/call", name="wait", arguments={})))
            while log.started < 2:
                await trio.sleep(0.01)
        with trio.fail_after(20):
            await log.cancelled.wait()


async def test_a_message_that_is_too_long_ends_the_connection_and_no_other() -> None:
    async with site(sample_server(Log()), max_body=100_000) as web:
        async with connected(web) as socket:
            with trio.fail_after(20), pytest.raises(trio_websocket.ConnectionClosed) as caught:
                await socket.send_message("x" * 400_000)
                await socket.get_message()
            assert caught.value.reason is not None
            assert caught.value.reason.code == 1009
        async with connected(web) as socket:
            assert (await ask(socket, modern(1, "tools/list")))["id"] == 1


async def test_a_binary_message_ends_the_connection() -> None:
    async with site(sample_server(Log())) as web, connected(web) as socket:
        with trio.fail_after(20), pytest.raises(trio_websocket.ConnectionClosed) as caught:
            await socket.send_message(b"{}")
            await socket.get_message()
        assert caught.value.reason is not None
        assert caught.value.reason.code == 1003


async def test_at_shutdown_calls_finish_subscriptions_get_their_result_and_the_client_is_told() -> None:
    log = Log()
    async with site(sample_server(log), graceful=20.0) as web, connected(web) as socket:
        listen = modern("s", "subscriptions/listen", notifications={"toolsListChanged": True})
        assert (await ask(socket, listen))["method"] == "notifications/subscriptions/acknowledged"
        await socket.send_message(json.dumps(modern(2, "tools/call", name="wait", arguments={"seconds": 0.3})))
        while not log.started:
            await trio.sleep(0.01)
        web.shutdown.set()
        answers = {answer["id"]: answer for answer in (await hear(socket), await hear(socket))}
        assert answers["s"]["result"]["resultType"] == "complete"
        assert answers[2]["result"]["content"][0]["text"] == "waited"
        with trio.fail_after(20), pytest.raises(trio_websocket.ConnectionClosed) as caught:
            await socket.get_message()
        assert caught.value.reason is not None
        assert caught.value.reason.code == 1001


async def test_each_message_counts_for_the_rate() -> None:
    async with site(sample_server(Log()), rate_limit=2) as web, connected(web) as socket:
        assert "result" in await ask(socket, modern(1, "tools/list"))
        assert (await ask(socket, modern(2, "tools/list")))["error"]["code"] == OVERLOADED


async def test_compression_is_not_taken_up() -> None:
    """Of a few bytes it could make more than anybody counts before they are there."""
    async with site(sample_server(Log())) as web, await trio.open_tcp_stream("127.0.0.1", web.port) as stream:
        extensions = "Sec-WebSocket-Extensions: permessage-deflate"
        await stream.send_all(upgrade("Sec-WebSocket-Protocol: mcp", extensions))
        with trio.fail_after(20):
            answer = bytes(await stream.receive_some(2000))
        assert b" 101 " in answer
        assert b"permessage-deflate" not in answer

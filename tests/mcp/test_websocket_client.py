"""Our client over a WebSocket to our server, and servers that refuse or vanish."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import pytest
import trio

from delta_actors.mcp import NoReply, NotSent, WebSocketParameters, connect, open_websocket
from delta_protocol.mcp.errors import McpError
from tests.mcp.samples import Log, sample_server
from tests.mcp.web import site


@pytest.mark.parametrize("era", ["auto", "legacy", "modern"])
async def test_our_client_and_our_server_agree_over_a_websocket(era: Any) -> None:
    async with site(sample_server(Log())) as web:
        async with open_websocket(WebSocketParameters(web.url.replace("http:", "ws:"), era=era)) as client:
            with trio.fail_after(30):
                result = await client.call_tool("add", b'{"a": 1, "b": 2}')
        assert "3" in str(result)


async def test_connect_takes_the_url_of_a_websocket() -> None:
    async with site(sample_server(Log())) as web, connect(web.url.replace("http:", "ws:")) as client:
        with trio.fail_after(30):
            assert await client.call_tool("add", b'{"a": 1, "b": 2}')


async def test_a_refusal_is_told_with_its_status() -> None:
    async with site(sample_server(Log())) as web:
        parameters = WebSocketParameters(web.url.replace("http:", "ws:"), {"origin": "https://evil.test"})
        with pytest.raises(NotSent) as caught:
            async with open_websocket(parameters):
                pass
        assert caught.value.status == 403


async def test_nobody_at_the_address_is_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(NotSent):
        async with open_websocket(WebSocketParameters(f"ws://127.0.0.1:{port}/mcp")):
            pass


async def test_a_server_that_goes_away_ends_the_call_with_an_unknown_outcome() -> None:
    log = Log()
    async with site(sample_server(log), graceful=0.2) as web:
        async with open_websocket(WebSocketParameters(web.url.replace("http:", "ws:"))) as client:
            raised: list[McpError] = []

            async def call() -> None:
                try:
                    await client.call_tool("wait", b"{}")
                except McpError as error:
                    raised.append(error)

            with trio.fail_after(30):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call)
                    while not log.started:
                        await trio.sleep(0.01)
                    web.shutdown.set()
        assert [type(error) for error in raised] == [NoReply]


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"\x00" * 99])
async def test_a_server_that_spoils_the_handshake_is_told_at_once(said: bytes) -> None:
    async def spoil(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(said)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, spoil, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        with trio.fail_after(20), pytest.raises(NotSent):
            async with open_websocket(WebSocketParameters(f"ws://127.0.0.1:{port}/mcp")):
                pass
        nursery.cancel_scope.cancel()

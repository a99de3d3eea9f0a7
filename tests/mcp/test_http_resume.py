"""A legacy stream that ends too early is taken up where it ended; annotated arguments go into headers."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest
import trio

from delta_actors.mcp import NoReply, NotSent, RpcError, open_http
from delta_actors.mcp.http_client import HttpParameters

Reply = tuple[int, dict[str, str], bytes]
Handler = Callable[[h11.Request, bytes], Reply]


@asynccontextmanager
async def web_server(handler: Handler) -> AsyncGenerator[str, None]:
    """A server outside: whatever `handler` answers, one request a connection."""

    async def serve(stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        request, body = None, b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                break
        if request is None:
            return
        status, headers, content = handler(request, body)
        sent = connection.send(
            h11.Response(status_code=status, headers=list((headers | {"connection": "close"}).items()))
        )
        assert sent is not None
        await stream.send_all(
            sent + (connection.send(h11.Data(content)) or b"") + (connection.send(h11.EndOfMessage()) or b"")
        )
        await stream.aclose()

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(trio.socket.from_stdlib_socket(listener))])
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        nursery.cancel_scope.cancel()


def answer(message: dict[str, Any], result: dict[str, Any]) -> Reply:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    return 200, {"content-type": "application/json", "mcp-session-id": "s"}, body


def event(identity: str, data: Any = None, retry: int = 10) -> bytes:
    text = json.dumps(data) if data is not None else ""
    return f"id: {identity}\nretry: {retry}\ndata: {text}\n\n".encode()


class Cutting:
    """A legacy server that cuts the stream of a call and gives the rest in pieces: `pieces` events a stream."""

    def __init__(self, rest: int, status: int = 200) -> None:
        self.rest = rest
        self.status = status
        self.seen: list[str] = []
        self.call: dict[str, Any] = {}

    def __call__(self, request: h11.Request, body: bytes) -> Reply:
        stream = {"content-type": "text/event-stream"}
        if request.method == b"GET":
            last = dict(request.headers).get(b"last-event-id")
            if last is None:
                return 405, {}, b""
            self.seen.append(last.decode())
            if self.status != 200:
                return self.status, {}, b""
            if len(self.seen) < self.rest:
                return 200, stream, event(f"e{len(self.seen)}")
            done = {"jsonrpc": "2.0", "id": self.call["id"], "result": {"content": [{"type": "text", "text": "late"}]}}
            return 200, stream, event("last", done)
        message = json.loads(body) if body else {}
        if message.get("method") == "initialize":
            return answer(
                message,
                {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}},
            )
        if message.get("method") == "tools/call":
            self.call = message
            return 200, stream, event("e0")
        return 202, {}, b""


async def test_a_cut_stream_is_taken_up_as_often_as_it_brings_something_new() -> None:
    server = Cutting(rest=8)
    async with web_server(server) as url, open_http(HttpParameters(url, era="legacy")) as client:
        with trio.fail_after(20):
            reply = await client.call_tool("slow", b"{}")
    assert b"late" in reply.result
    assert server.seen == ["e0", *(f"e{number}" for number in range(1, 8))]


async def test_a_stream_that_the_server_forgot_leaves_the_outcome_unknown() -> None:
    server = Cutting(rest=1, status=404)
    async with web_server(server) as url, open_http(HttpParameters(url, era="legacy")) as client:
        with trio.fail_after(20), pytest.raises(NoReply, match="404"):
            await client.call_tool("slow", b"{}")


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


class Mirroring:
    """A modern server that annotates an argument, under a name that changes with every list."""

    def __init__(self) -> None:
        self.lists = 0
        self.sent: list[dict[bytes, bytes]] = []

    def __call__(self, request: h11.Request, body: bytes) -> Reply:
        message = json.loads(body)
        if message["method"] == "server/discover":
            return answer(
                message, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            )
        if message["method"] == "tools/list":
            self.lists += 1
            region = {"type": "string", "x-mcp-header": f"Region{self.lists}"}
            good = tool("good", region=region, n={"type": "integer", "x-mcp-header": "N"})
            bad = tool("bad", x={"type": "number", "x-mcp-header": "X"})
            return answer(message, {"resultType": "complete", "tools": [good, bad]})
        headers = {name: value for name, value in request.headers if name.startswith(b"mcp-param-")}
        self.sent.append(headers)
        if b"mcp-param-region2" not in headers:
            error = {"code": -32020, "message": "header mismatch"}
            return (
                400,
                {"content-type": "application/json"},
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode(),
            )
        return answer(message, {"resultType": "complete", "content": []})


async def test_annotated_arguments_are_repeated_and_looked_up_again_once_where_the_server_finds_them_wrong() -> None:
    server = Mirroring()
    async with web_server(server) as url, open_http(HttpParameters(url, era="modern")) as client:
        tools = [json.loads(tool)["name"] for tool in await client.list_tools()]
        assert tools == ["good"]
        await client.call_tool("good", '{"region":"Zürich ","n":7}'.encode())
        assert [set(sent) for sent in server.sent] == [
            {b"mcp-param-region1", b"mcp-param-n"},
            {b"mcp-param-region2", b"mcp-param-n"},
        ]
        assert server.sent[1] == {b"mcp-param-region2": b"=?base64?WsO8cmljaCA=?=", b"mcp-param-n": b"7"}
        await client.call_tool("good", b'{"region":"x","n":null}')
        assert set(server.sent[-1]) == {b"mcp-param-region2"}
        with pytest.raises(NotSent, match="n: 9007199254740993 is beyond"):
            await client.call_tool("good", b'{"n":9007199254740993}')
        with pytest.raises(RpcError, match="-32020"):
            await client.call_tool("good", b"{}")

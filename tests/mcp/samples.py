"""A server with one tool per behaviour, and clients to talk to it by hand."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_one_way_pair

from delta_actors.mcp import DeltaServer, RequestContext, RpcError, ServerSettings
from delta_protocol.errors import Invalid, Overloaded
from delta_protocol.wire.message import Principal

STDIO = Principal("stdio", "stdio")
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}},
}
ELICIT = b'{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}'


class Log:
    """What happened to handlers."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = trio.Event()
        self.finished = 0


def sample_server(log: Log, settings: ServerSettings | None = None) -> DeltaServer:
    server = DeltaServer("sample", "1.0", instructions="For tests.", settings=settings)

    @server.tool(read_only=True)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool()
    async def wait(seconds: float = 3600) -> str:
        log.started += 1
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            log.cancelled.set()
            raise
        log.finished += 1
        return "waited"

    @server.tool()
    async def echo(text: str, delay: float = 0) -> str:
        await trio.sleep(delay)
        return text

    @server.tool()
    async def steps(to: int, context: RequestContext) -> str:
        for number in (1, 2, 2, 1, *range(3, to + 1)):
            await context.progress(number, to, f"step {number}")
        return "done"

    @server.tool()
    async def greet(context: RequestContext) -> str:
        answer = json.loads(await context.ask_client("elicitation/create", ELICIT))
        roots = json.loads(await context.ask_client("roots/list"))
        return f"Hello {answer['content']['name']} of {roots['roots'][0]['uri']}"

    @server.tool()
    async def fail(kind: str) -> str:
        if kind == "invalid":
            raise Invalid("the label is unknown", what="label")
        if kind == "overloaded":
            raise Overloaded("no worker is free", retry_after=7)
        if kind == "rpc":
            raise RpcError(4711, "own code", b'{"x":1}')
        if kind == "group":
            async with trio.open_nursery():
                raise Invalid("inside a nursery")
        raise ZeroDivisionError("message of the handler")

    @server.tool()
    async def about(context: RequestContext) -> dict[str, Any]:
        return {
            "era": context.era,
            "conversation": context.conversation,
            "request": context.request,
            "principal": context.principal.id,
            "client": context.client_name,
            "pid": os.getpid(),
        }

    return server


def modern(identity: int | str, method: str, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    return request(identity, method, _meta=META | (meta or {}), **params)


def request(identity: int | str, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


INITIALIZE = request(
    0,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={"elicitation": {}, "roots": {}},
    clientInfo={"name": "t"},
)


class Peer:
    """A client that says exactly what a test tells it to."""

    def __init__(self, send: MemorySendStream, receive: MemoryReceiveStream) -> None:
        self._send = send
        self._receive = receive
        self._buffer = b""

    async def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            text = message if isinstance(message, bytes) else json.dumps(message).encode()
            await self._send.send_all(text + b"\n")

    async def hear(self) -> Any:
        with trio.fail_after(30):
            while b"\n" not in self._buffer:
                data = await self._receive.receive_some(65536)
                if not data:
                    raise EOFError
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def ask(self, message: dict[str, Any] | bytes) -> Any:
        await self.say(message)
        return await self.hear()

    async def begin(self) -> None:
        assert (await self.ask(INITIALIZE))["result"]["protocolVersion"] == "2025-11-25"
        await self.say(note("notifications/initialized"))

    async def hang_up(self) -> None:
        await self._send.aclose()


@asynccontextmanager
async def served(server: DeltaServer) -> AsyncGenerator[Peer, None]:
    """A session of `server` over streams in memory."""
    to_server, receive = memory_stream_one_way_pair()
    send, from_server = memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await server.serve_lines(receive, send, principal=STDIO)
            await send.aclose()

        nursery.start_soon(serve)
        yield Peer(to_server, from_server)
        nursery.cancel_scope.cancel()

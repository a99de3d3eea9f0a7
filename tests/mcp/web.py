"""A sample server behind hypercorn on a real loopback socket, and raw requests to it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import trio

from delta_actors.mcp import DeltaServer, HttpSettings, serve_http
from delta_actors.mcp.access import Access, Authenticate

KEY = b"k" * 32


@dataclass(slots=True)
class Site:
    url: str
    port: int
    shutdown: trio.Event
    http: httpx.AsyncClient
    done: trio.Event

    async def post(self, message: Any, headers: Mapping[str, str] | None = None, **options: Any) -> httpx.Response:
        body = {"content": message} if isinstance(message, bytes) else {"json": message}
        given = {"content-type": "application/json"} | dict(headers or {})
        return await self.http.post(self.url, headers=given, **body, **options)

    async def modern(self, message: dict[str, Any], headers: Mapping[str, str] | None = None) -> httpx.Response:
        return await self.post(message, routing(message) | dict(headers or {}))

    async def begin(self, capabilities: dict[str, Any] | None = None) -> dict[str, str]:
        """Open a legacy session and return the headers that go with it."""
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": {"name": "t"}}
        answer = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert answer.status_code == 200
        headers = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(note, headers)).status_code == 202
        return headers


def routing(message: dict[str, Any]) -> dict[str, str]:
    """The headers that mirror a modern request."""
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": message["method"]}
    if message["method"] == "tools/call":
        headers["mcp-name"] = message["params"]["name"]
    return headers


def events(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


@asynccontextmanager
async def site(
    server: DeltaServer,
    *,
    authenticate: Access | Authenticate | None = None,
    listener: socket.socket | None = None,
    **settings: Any,
) -> AsyncGenerator[Site, None]:
    """Serve until the block ends, then shut down in order."""
    own = listener or listening()
    port = own.getsockname()[1]
    shutdown, done = trio.Event(), trio.Event()
    chosen = HttpSettings(KEY, **settings)

    async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
        await serve_http(server, [own], chosen, shutdown, authenticate, task_status=task_status)
        done.set()

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(timeout=60, limits=limits) as http:
                yield Site(f"http://127.0.0.1:{port}/mcp", port, shutdown, http, done)
            shutdown.set()
    finally:
        if listener is None:
            own.close()


def raw_request(message: dict[str, Any], length: int | None = None) -> bytes:
    """A modern request as bytes for a socket; `length` announces another length than the body's."""
    body = json.dumps(message).encode()
    headers = {"host": "localhost", "content-type": "application/json", **routing(message)}
    headers["content-length"] = str(len(body) if length is None else length)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body


def listening() -> socket.socket:
    opened = socket.create_server(("127.0.0.1", 0), backlog=512)
    opened.setblocking(False)
    return opened

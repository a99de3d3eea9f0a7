"""Bare clients of the modern era, written from the protocol's text, so that the proofs do not lean on our own code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import trio

from tests.stack.harness import Stack

Message = dict[str, Any]
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "proof", "version": "1"},
}


class Gone(Exception):
    """The server's end of the connection closed with the request unanswered."""


def body(number: int, method: str, params: Mapping[str, Any]) -> Message:
    """Return a request with the metadata that every request of this era carries."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}


def text_of(answer: Message) -> str:
    """Return the text that a model would read in the answer to `tools/call`; an error's message for an error."""
    if "error" in answer:
        return str(answer["error"]["message"])
    return "\n".join(block.get("text", "") for block in answer["result"]["content"])


def facts_of(answer: Message) -> dict[str, Any]:
    """Return the structured content of the answer to `tools/call`."""
    facts: dict[str, Any] = answer["result"]["structuredContent"]
    return facts


class HttpClient:
    """One request per POST; the answer is JSON or the last event of a stream."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url
        self._client = client
        self._number = 0

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """Return the response message; raises `httpx.TransportError`, and `httpx.HTTPStatusError` without a message."""
        self._number += 1
        number = self._number
        message = body(number, method, params or {})
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
            **({"Mcp-Name": message["params"]["name"]} if method == "tools/call" else {}),
        }
        response = await self._client.post(self._url, json=message, headers=headers)
        return _answer(response, number)

    async def call(self, tool: str, **arguments: Any) -> Message:
        """Call a tool and return the response message."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})


def _answer(response: httpx.Response, number: int) -> Message:
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        events = [line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")]
        messages = [json.loads(event) for event in events if event.strip()]
        answers = [message for message in messages if message.get("id") == number]
        if not answers:
            raise httpx.RemoteProtocolError("the stream ended without an answer")
        return dict(answers[-1])
    try:
        message = response.json()
    except ValueError:
        response.raise_for_status()
        raise
    return dict(message)


@asynccontextmanager
async def open_http(url: str, *, timeout: float = 90.0, connections: int = 100) -> AsyncIterator[HttpClient]:
    """Open a client for one endpoint. Seconds."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with httpx.AsyncClient(verify=False, timeout=timeout, limits=limits, trust_env=False) as client:
        yield HttpClient(url, client)


async def post_once(url: str, message: Message) -> tuple[int, dict[str, str], Message]:
    """Send one request on a connection of its own; return status, headers and message.

    Many at once cost little: a pooling client looks at all its connections for each request.
    """
    host, port = url.removeprefix("http://").split("/")[0].split(":")
    text = json.dumps(message).encode()
    head = [
        f"POST /{url.split('/', 3)[3]} HTTP/1.1",
        f"Host: {host}:{port}",
        "Connection: close",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
        f"MCP-Protocol-Version: {VERSION}",
        f"Mcp-Method: {message['method']}",
        *([f"Mcp-Name: {message['params']['name']}"] if "name" in message["params"] else []),
    ]
    stream = await trio.open_tcp_stream(host, int(port))
    async with stream:
        await stream.send_all("\r\n".join(head).encode() + b"\r\n\r\n" + text)
        received = b"".join([chunk async for chunk in stream])
    first, *lines = received.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    answer = httpx.Response(200, headers={"content-type": headers["content-type"]}, content=_content(received, headers))
    return int(first.split()[1]), headers, _answer(answer, message["id"])


def _content(received: bytes, headers: Mapping[str, str]) -> bytes:
    rest = received.partition(b"\r\n\r\n")[2]
    if headers.get("transfer-encoding") != "chunked":
        return rest
    content = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        content, rest = content + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return content


class StdioClient:
    """Requests in flight over one child's pipes. `notifications` holds what came without an id."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.notifications: list[Message] = []
        self._waiting: dict[int, trio.MemorySendChannel[Message]] = {}
        self._number = 0
        self._lock = trio.Lock()

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """Return the response message; raises `Gone` when the child closes its stdout first."""
        self._number += 1
        number = self._number
        send, receive = trio.open_memory_channel[Message](1)
        self._waiting[number] = send
        try:
            await self.send(body(number, method, params or {}))
            return await receive.receive()
        except trio.EndOfChannel as error:
            raise Gone(method) from error
        except trio.Cancelled:
            with trio.CancelScope(shield=True), trio.move_on_after(2):
                await self.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
                )
            raise
        finally:
            self._waiting.pop(number, None)

    async def call(self, tool: str, **arguments: Any) -> Message:
        """Call a tool and return the response message."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def send(self, message: Message) -> None:
        """Write one line."""
        assert self.process.stdin is not None
        async with self._lock:
            try:
                await self.process.stdin.send_all(json.dumps(message).encode() + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Gone("stdin is closed") from error

    async def read(self) -> None:
        """Hand out what arrives until stdout ends."""
        assert self.process.stdout is not None
        rest = b""
        async for chunk in self.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
        for waiting in self._waiting.values():
            waiting.close()

    def _take(self, message: Message) -> None:
        waiting = self._waiting.get(message["id"]) if "id" in message else None
        if waiting is not None:
            waiting.send_nowait(message)
        else:
            self.notifications.append(message)


@asynccontextmanager
async def open_stdio(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[StdioClient]:
    """Start a server's process and open a client on its pipes. At the end its stdin is closed and it may leave."""
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=cwd, check=False
        )
        process = await nursery.start(run)
        client = StdioClient(process)
        nursery.start_soon(client.read)
        try:
            yield client
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(10) as patience:
                await process.stdin.aclose()
                await process.wait()
            if patience.cancelled_caught:
                process.kill()


def open_relay(stack: Stack) -> AbstractAsyncContextManager[StdioClient]:
    """Open a client on a stack's `stdio` command."""
    return open_stdio(stack.command("stdio"), env=stack.env, cwd=stack.home)

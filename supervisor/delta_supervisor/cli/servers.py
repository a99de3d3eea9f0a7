"""What `list`, `describe`, `call` and `bench` do with any MCP server: a command to start, or a URL."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from statistics import median
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import Raw

from delta_actors.mcp import DeltaClient, connect
from delta_protocol import tokens
from delta_protocol.catalogue import notation
from delta_protocol.catalogue.notation import Level
from delta_protocol.catalogue.visible import one_line
from delta_protocol.codecs import exact_json
from delta_protocol.errors import (
    ActorUnavailable,
    DeadlineExceeded,
    DeltaError,
    Invalid,
    NotFound,
    ProtocolViolation,
    Refused,
)
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import McpError, NotSent, RpcError
from delta_protocol.nearest import nearest

ResultT = TypeVar("ResultT")

SUMMARY = 60
"""Characters of a tool's description that a list shows."""


_SCHEMES = ("http://", "https://", "ws://", "wss://")


class Target(msgspec.Struct, frozen=True):
    """Which server: `words` are a command and its arguments, or one URL. `timeout` in seconds, for start and all."""

    words: tuple[str, ...]
    headers: Mapping[str, str] = {}
    era: str = "auto"
    timeout: float = 60.0

    @property
    def url(self) -> str | None:
        """The URL, None for a command."""
        return self.words[0] if self.words[0].startswith(_SCHEMES) else None


class ToolView(msgspec.Struct, frozen=True):
    """One tool: its definition as the server gave it, and what its parts cost a model in tokens."""

    name: str
    summary: str
    signature: str
    tokens: int
    definition: Raw


class ServerView(msgspec.Struct, frozen=True):
    """A server and its tools. `tokens`: the whole list, names with summaries, and signatures."""

    name: str
    version: str
    protocol: str
    tools: tuple[ToolView, ...]
    tokens: dict[str, int]


def use(target: Target, work: Callable[[DeltaClient], Awaitable[ResultT]]) -> ResultT:
    """Connect, do `work`, and leave nothing behind.

    Raises `DeltaError`: `Refused` without a good token, `ActorUnavailable` where there was no connection,
    `DeadlineExceeded`, `Invalid` with the server's own error, `ProtocolViolation` where its answer cannot be read.
    """

    async def whole() -> ResultT:
        with trio.fail_after(target.timeout):
            async with _opened(target) as client:
                return await work(client)

    try:
        return trio.run(whole)
    except trio.TooSlowError:
        raise DeadlineExceeded(f"the server did not finish within {target.timeout:g} s (--timeout)") from None
    except McpError as error:
        raise _told(error) from None


def _told(error: McpError) -> DeltaError:
    match error:
        case RpcError():
            return Invalid(f"the server says: {error.message} ({error.code})", what="server", rpc=error.code)
        case NotSent(status=401):
            return Refused(f"{error.message}; give a token: --header 'Authorization=Bearer TOKEN'")
        case NotSent():
            return ActorUnavailable(error.message)
        case _:
            return ProtocolViolation(error.message)


def _opened(target: Target) -> AbstractAsyncContextManager[DeltaClient]:
    named: str | Sequence[str] = target.words if target.url is None else target.url
    era: Any = target.era
    return connect(named, headers=target.headers, era=era, start_timeout=target.timeout)


async def view(client: DeltaClient) -> ServerView:
    """Return the server and its tools."""
    definitions = await client.list_tools()
    shown = tuple(_tool(text) for text in definitions)
    short = [{"name": tool.name, "description": tool.summary} for tool in shown]
    costs = {
        "list": _cost({"tools": [Raw(text) for text in definitions]}),
        "summaries": _cost({"tools": short}),
        "signatures": tokens.estimate("\n".join(tool.signature for tool in shown)),
    }
    info = client.server_info
    return ServerView(info.name, info.version, client.protocol_version, shown, costs)


def _tool(text: Json) -> ToolView:
    body: dict[str, Any] = msgspec.json.decode(text)
    name = str(body.get("name", ""))
    described = str(body.get("description") or body.get("title") or "")
    schema = exact_json.decode(msgspec.json.encode(body.get("inputSchema", {})))
    signature = f"{name}({notation.parameters(schema, Level.EXACT)})"
    return ToolView(name, one_line(described, SUMMARY), signature, tokens.estimate(text.decode()), Raw(text))


def _cost(body: Any) -> int:  # noqa: ANN401 - any JSON value
    return tokens.estimate(msgspec.json.encode(body).decode())


async def find(client: DeltaClient, name: str) -> ToolView:
    """Return one tool. Raises `NotFound` naming the nearest one."""
    found = await view(client)
    for tool in found.tools:
        if tool.name == name:
            return await _whole(client, tool)
    names = [tool.name for tool in found.tools]
    near = " or ".join(nearest(name, names))
    hint = f"; did you mean {near}?" if near else f"; it has {', '.join(names[:20]) or 'none'}"
    raise NotFound(f"the server has no tool {name!r}{hint}", what=name)


async def _whole(client: DeltaClient, tool: ToolView) -> ToolView:
    """Return the tool with its definition also where the server's list has names only."""
    if "inputSchema" in msgspec.json.decode(tool.definition, type=dict[str, Raw]):
        return tool
    described = (await client.tools.describe([tool.name])).get(tool.name)
    return tool if described is None else _tool(described)


class Timing(msgspec.Struct, frozen=True):
    """Milliseconds: from the start to the first list, and the median of `count` further ones."""

    first_list: float
    list: float
    count: int


def bench(target: Target, count: int) -> tuple[ServerView, Timing]:
    """Start the server once, and measure. Raises what `use` raises."""
    began = time.perf_counter()

    async def measure(client: DeltaClient) -> tuple[ServerView, Timing]:
        found = await view(client)
        first = time.perf_counter() - began
        taken: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            await client.list_tools()
            taken.append(time.perf_counter() - start)
        return found, Timing(round(first * 1000, 1), round(median(taken) * 1000, 2), count)

    return use(target, measure)


def texts(result: Mapping[str, Any]) -> str:
    """Return the text blocks of a CallToolResult; other blocks are named."""
    blocks: Sequence[Any] = result.get("content") or ()
    lines = [str(block["text"]) if block.get("type") == "text" else f"[{block.get('type')}]" for block in blocks]
    return "\n".join(lines)

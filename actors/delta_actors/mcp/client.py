"""`DeltaClient`: one MCP server as a caller sees it, in either era, over stdio or Streamable HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from delta_actors.mcp.background import background
from delta_actors.mcp.client_calls import OnNotification, OnProgress, OnQuestion
from delta_actors.mcp.client_disclosure import ToolCatalogue
from delta_actors.mcp.stdio_client import StdioParameters, open_line_client
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp import handshake
from delta_protocol.mcp.errors import McpError, NoReply
from delta_protocol.mcp.handshake import Agreement, ClientIdentity
from delta_protocol.mcp.types import CallToolReply, Implementation
from delta_protocol.mcp.versions import Era

_ShapeT = TypeVar("_ShapeT")

_MAX_PAGES = 1000
_MAX_ROUNDS = 10


class ClientWire(Protocol):
    """A connection that carries requests, whatever is under it."""

    async def request(
        self,
        method: str,
        params: Json,
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        on_notification: OnNotification | None = None,
    ) -> Json:
        """Return the result's JSON text. Raises `RpcError`, `NotSent`, `NoReply`."""
        ...

    async def wait_closed(self) -> str:
        """Return, with the reason, once the connection is gone for good."""
        ...

    @property
    def pid(self) -> int | None:
        """The connector's process, None where it is no process of ours."""
        ...

    @property
    def junk_lines(self) -> int:
        """How many lines of its output were no messages."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The last of its stderr."""
        ...


class _InputRequest(msgspec.Struct):
    method: str
    params: Raw = Raw(b"{}")


class _Result(msgspec.Struct, rename="camel"):
    """The members of a result that decide how to go on."""

    result_type: str = "complete"
    is_error: bool = False
    input_requests: dict[str, _InputRequest] = {}
    request_state: str | None = None


class _Page(msgspec.Struct, rename="camel"):
    tools: list[Raw]
    next_cursor: str | None = None


class DeltaClient:
    """An open session. Calls may run concurrently; cancelling a call's task cancels the call at the server.

    `on_tools_changed` is called, without waiting, when the server says that its tools changed, and `on_notification`
    for every notification that belongs to no request. `tools` answers what there is without fetching every definition.
    """

    def __init__(self, wire: ClientWire, agreement: Agreement, identity: ClientIdentity) -> None:
        self._wire = wire
        self._agreement = agreement
        self.meta = identity.modern_meta(agreement.version) if agreement.era == "modern" else {}
        self.tools = ToolCatalogue(self)
        self.on_tools_changed: Callable[[], None] | None = None
        self.on_notification: OnNotification | None = None

    @property
    def era(self) -> Era:
        """The era this session is in."""
        return self._agreement.era

    @property
    def protocol_version(self) -> str:
        """The revision agreed on."""
        return self._agreement.version

    @property
    def server_info(self) -> Implementation:
        """Who the server says it is."""
        return self._agreement.server

    @property
    def capabilities(self) -> Json:
        """The ServerCapabilities object."""
        return self._agreement.capabilities

    @property
    def announces_tool_changes(self) -> bool:
        """Whether the server said that it tells when its tools change."""
        return self._agreement.announces_tool_changes

    @property
    def instructions(self) -> str:
        """The server's instructions, empty if none."""
        return self._agreement.instructions

    @property
    def pid(self) -> int | None:
        """The connector's process id; None over HTTP."""
        return self._wire.pid

    @property
    def junk_lines(self) -> int:
        """How many lines on its stdout were no messages (acceptance 29)."""
        return self._wire.junk_lines

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of its stderr."""
        return self._wire.stderr_tail

    async def list_tools(self) -> list[Json]:
        """Return every tool's definition as JSON text, all pages, in the server's order.

        Raises `RpcError`, `NotSent`, `NoReply`; the latter also where a page is none, or the cursors go round.
        """
        tools: list[Json] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_MAX_PAGES):
            params = msgspec.json.encode({} if cursor is None else {"cursor": cursor})
            page = _decode(await self.request("tools/list", params), _Page, "tools/list")
            tools += (bytes(tool) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return tools
            if cursor in seen:
                break
            seen.add(cursor)
        raise NoReply("tools/list: the server's pages do not end")

    async def call_tool(
        self,
        name: str,
        arguments: Json,
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolReply:
        """Call a tool with the JSON text of an object.

        `on_question` answers what the server asks meanwhile; declare what it can do in the parameters' `capabilities`.
        `meta` is added to the params' `_meta`.
        Raises `RpcError` (the peer's error), `NotSent` (certainly not carried out), `NoReply` (unknown).
        """
        params: dict[str, Any] = {"name": name, "arguments": Raw(arguments)}
        for _ in range(_MAX_ROUNDS):
            text = await self.request(
                "tools/call",
                msgspec.json.encode(params),
                on_progress=on_progress,
                on_question=on_question,
                meta=meta,
            )
            result = _decode(text, _Result, "tools/call")
            if result.result_type == "complete":
                return CallToolReply(text, result.is_error)
            if result.result_type != "input_required":
                raise NoReply(f"tools/call: unknown resultType {result.result_type!r}")
            params = {"name": name, "arguments": Raw(arguments)} | await _answers(result, on_question)
        raise NoReply(f"tools/call: the server asked more than {_MAX_ROUNDS} times")

    async def request(
        self,
        method: str,
        params: Json = b"{}",
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        on_notification: OnNotification | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Json:
        """Send any request and return the result's JSON text. Raises `RpcError`, `NotSent`, `NoReply`.

        `meta` is added to the params' `_meta`. `on_notification` takes the notifications that belong to the request.
        """
        return await self._wire.request(
            method,
            handshake.with_meta(params, {**self.meta, **(meta or {})}),
            on_progress=on_progress,
            on_question=on_question,
            on_notification=on_notification,
        )

    async def wait_closed(self) -> str:
        """Return, with the reason, once the session is gone for good."""
        return await self._wire.wait_closed()

    async def listen(self) -> None:
        """Keep a modern subscription open for the length of a connection that needs no reconnecting."""
        with contextlib.suppress(McpError):
            await self.request("subscriptions/listen", handshake.LISTEN_PARAMS)

    def take_notification(self, method: str, params: Json) -> None:
        """A notification arrived that belongs to no call."""
        if self.on_notification is not None:
            self.on_notification(method, params)
        if method == "notifications/tools/list_changed":
            self.tools.changed()
            if self.on_tools_changed is not None:
                self.on_tools_changed()


@asynccontextmanager
async def open_stdio(parameters: StdioParameters) -> AsyncGenerator[DeltaClient, None]:
    """Start a connector's process under its guardian and open a session; on leaving, nothing of it is left.

    Raises `NotSent` where it cannot be started or does not speak the protocol.
    """
    async with open_line_client(parameters) as (wire, agreement), background() as nursery:
        client = DeltaClient(wire, agreement, ClientIdentity(parameters.client, parameters.capabilities))
        wire.on_notification = client.take_notification
        if agreement.era == "modern" and agreement.announces_tool_changes:
            nursery.start_soon(client.listen)
        yield client


async def _answers(result: _Result, on_question: OnQuestion | None) -> dict[str, Any]:
    """Return the members that the retry of an `input_required` call carries (spec 1.8)."""
    answers: dict[str, Raw] = {}
    for key, asked in result.input_requests.items():
        if on_question is None:
            raise NoReply(f"tools/call: the server asks {asked.method}, which nobody here answers")
        answers[key] = Raw(await on_question(asked.method, bytes(asked.params)))
    members: dict[str, Any] = {"inputResponses": answers} if answers else {}
    if result.request_state is not None:
        members["requestState"] = result.request_state
    if not members:
        raise NoReply("tools/call: input_required without inputRequests and requestState")
    return members


def _decode(text: Json, kind: type[_ShapeT], what: str) -> _ShapeT:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReply(f"{what}: the answer is against the protocol: {error}") from None

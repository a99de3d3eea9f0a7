"""`DeltaClient`: one MCP server as a caller sees it, in either era, over stdio or Streamable HTTP."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import msgspec
import trio
from msgspec import Raw

from delta_actors.mcp.background import background
from delta_actors.mcp.client_calls import OnNotification, OnProgress, OnQuestion
from delta_actors.mcp.client_disclosure import ToolCatalogue
from delta_actors.mcp.client_features import ClientFeatures
from delta_actors.mcp.client_tasks import call_tool
from delta_actors.mcp.stdio_client import StdioParameters, open_line_client
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp import handshake
from delta_protocol.mcp.errors import McpError, NoReply
from delta_protocol.mcp.handshake import Agreement, ClientIdentity
from delta_protocol.mcp.levels import Level
from delta_protocol.mcp.types import CallToolReply, Implementation
from delta_protocol.mcp.versions import META_LOG_LEVEL, Era

_ShapeT = TypeVar("_ShapeT")

LISTS_OF = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
    "notifications/prompts/list_changed": ("prompts/list",),
}
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


class _Values(msgspec.Struct):
    values: list[str]


class _Completed(msgspec.Struct):
    completion: _Values


class _Fresh(msgspec.Struct, rename="camel"):
    """What a page says of the next one, and of how long it may be kept."""

    next_cursor: str | None = None
    ttl_ms: int = 0


class DeltaClient:
    """An open session. Calls may run concurrently; cancelling a call's task cancels the call at the server.

    `on_tools_changed` is called, without waiting, when the server says that its tools changed, and `on_notification`
    for every notification that belongs to no request. `tools` answers what there is without fetching every definition;
    `features` answer the server's questions where a call does not.
    """

    def __init__(self, wire: ClientWire, agreement: Agreement, identity: ClientIdentity) -> None:
        self._wire = wire
        self._agreement = agreement
        self.meta = identity.modern_meta(agreement.version) if agreement.era == "modern" else {}
        self.tools = ToolCatalogue(self)
        self.on_tools_changed: Callable[[], None] | None = None
        self.on_notification: OnNotification | None = None
        self.features: ClientFeatures | None = None
        self._lists: dict[str, tuple[float, tuple[Json, ...]]] = {}
        self._generations: dict[str, int] = {}

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

        A modern server's list is kept as long as it allows (`ttlMs`), and until it says that the list changed.
        Raises `RpcError`, `NotSent`, `NoReply`; the latter also where a page is none, or the cursors go round.
        """
        return await self._list("tools/list", "tools")

    async def list_resources(self) -> list[Json]:
        """Return every resource's definition; see `list_tools`."""
        return await self._list("resources/list", "resources")

    async def list_resource_templates(self) -> list[Json]:
        """Return every resource template's definition; see `list_tools`."""
        return await self._list("resources/templates/list", "resourceTemplates")

    async def list_prompts(self) -> list[Json]:
        """Return every prompt's definition; see `list_tools`."""
        return await self._list("prompts/list", "prompts")

    async def _list(self, method: str, member: str) -> list[Json]:
        kept = self._lists.get(method)
        if kept is not None and trio.current_time() < kept[0]:
            return list(kept[1])
        generation = self._generations[method] = self._generations.get(method, 0) + 1
        items, cursor, seen, until = list[Json](), None, set[str](), math.inf
        for _ in range(_MAX_PAGES):
            asked = trio.current_time()
            page = await self.request(method, msgspec.json.encode({} if cursor is None else {"cursor": cursor}))
            fresh = _decode(page, _Fresh, method)
            until = min(until, asked + fresh.ttl_ms / 1000)
            listed = _decode(page, dict[str, Raw], method).get(member)
            if listed is None:
                raise NoReply(f"{method}: the answer has no {member}")
            items += (bytes(item) for item in _decode(listed, list[Raw], method))
            cursor = fresh.next_cursor
            if cursor is None:
                break
            if cursor in seen:
                raise NoReply(f"{method}: the server's pages do not end")
            seen.add(cursor)
        else:
            raise NoReply(f"{method}: the server's pages do not end")
        # What the server said to have changed meanwhile may be older than the change.
        if self.era == "modern" and self._generations[method] == generation and until > trio.current_time():
            self._lists[method] = (until, tuple(items))
        return items

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

        `on_question` answers what the server asks meanwhile, in place of the client's own features; declare what it can
        do in the parameters' `capabilities`. `meta` is added to the params' `_meta`. A call that became a task (spec
        1.17) is followed to its end.
        Raises `RpcError` (the peer's error), `NotSent` (certainly not carried out), `NoReply` (unknown).
        """
        params = {"name": name, "arguments": Raw(arguments)}
        text = await self.ask("tools/call", params, on_progress=on_progress, on_question=on_question, meta=meta)
        return CallToolReply(text, _decode(text, _Result, "tools/call").is_error)

    async def read_resource(
        self, uri: str, *, on_progress: OnProgress | None = None, on_question: OnQuestion | None = None
    ) -> Json:
        """Return the ReadResourceResult's JSON text. Raises what `call_tool` raises."""
        return await self.ask("resources/read", {"uri": uri}, on_progress=on_progress, on_question=on_question)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
    ) -> Json:
        """Return the GetPromptResult's JSON text. Raises what `call_tool` raises."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return await self.ask("prompts/get", params, on_progress=on_progress, on_question=on_question)

    async def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        template: str | None = None,
        known: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return suggestions for an argument of a prompt or of a resource template; `known` are the others' values.

        Raises `TypeError` unless one of both is named, and what `request` raises.
        """
        if (prompt is None) == (template is None):
            raise TypeError("a completion is for a prompt, or for a resource template")
        ref = {"type": "ref/prompt", "name": prompt} if template is None else {"type": "ref/resource", "uri": template}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if known:
            params["context"] = {"arguments": dict(known)}
        text = await self.request("completion/complete", msgspec.json.encode(params))
        return _decode(text, _Completed, "completion/complete").completion.values

    async def set_log_level(self, level: Level) -> None:
        """Have the server send log messages from `level` on: for the legacy session, or with every modern request."""
        if self.era == "legacy":
            await self.request("logging/setLevel", msgspec.json.encode({"level": level}))
        else:
            self.meta[META_LOG_LEVEL] = level
            await trio.lowlevel.checkpoint()

    async def ping(self) -> None:
        """Ask for any answer: `ping`, which the modern era has not, or `server/discover`."""
        await self.request("ping" if self.era == "legacy" else "server/discover")

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Json:
        """Send a request that may make the server ask, until its result is complete. Raises what `call_tool` raises."""
        answer = on_question or self.features
        members: dict[str, Any] = dict(params)
        for _ in range(_MAX_ROUNDS):
            sent = msgspec.json.encode(members)
            if method == "tools/call":
                text = await call_tool(
                    self, sent, on_progress=on_progress, on_question=answer, on_task_question=answer, meta=meta
                )
            else:
                text = await self.request(method, sent, on_progress=on_progress, on_question=answer, meta=meta)
            result = _decode(text, _Result, method)
            if result.result_type == "complete":
                return text
            if result.result_type != "input_required":
                raise NoReply(f"{method}: unknown resultType {result.result_type!r}")
            members = {**params, **await _answers(method, result, answer)}
        raise NoReply(f"{method}: the server asked more than {_MAX_ROUNDS} times")

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

    def forget_lists(self, notification: str) -> None:
        """Keep no list any longer that a notification says to have changed."""
        for method in LISTS_OF.get(notification, ()):
            self._lists.pop(method, None)
            self._generations[method] = self._generations.get(method, 0) + 1

    def take_notification(self, method: str, params: Json) -> None:
        """A notification arrived that belongs to no call."""
        self.forget_lists(method)
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


async def _answers(method: str, result: _Result, on_question: OnQuestion | None) -> dict[str, Any]:
    """Return the members that the retry of an `input_required` call carries (spec 1.8)."""
    answers: dict[str, Raw] = {}
    for key, asked in result.input_requests.items():
        if on_question is None:
            raise NoReply(f"{method}: the server asks {asked.method}, which nobody here answers")
        answers[key] = Raw(await on_question(asked.method, bytes(asked.params)))
    members: dict[str, Any] = {"inputResponses": answers} if answers else {}
    if result.request_state is not None:
        members["requestState"] = result.request_state
    if not members:
        raise NoReply(f"{method}: input_required without inputRequests and requestState")
    return members


def _decode(text: Json | Raw, kind: type[_ShapeT], what: str) -> _ShapeT:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReply(f"{what}: the answer is against the protocol: {error}") from None

"""The methods of progressive disclosure beside `tools/list`: index, describe, search (extension, spec 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from delta_actors.mcp.context import RequestContext, ToolSource
from delta_actors.mcp.methods import Method
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp import disclosure
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member
from delta_protocol.mcp.pages import page
from delta_protocol.mcp.types import json_array, json_object
from delta_protocol.mcp.versions import Era

SEARCH_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Disclosure:
    """How a server shows its tools beside the complete list; each way by itself.

    `methods` offers the extension to clients that know it. `meta_tools` lists `search_tools`, `describe_tool` and
    `call_tool` in place of the tools, for clients that know nothing. `delta_mcp` meets clients of delta-mcp 0.x as they
    expect it: names in the list, `tools/describe`, compact-json, over HTTP also CBOR. `max_describe` is how many
    definitions one request may ask for.
    """

    methods: bool = True
    meta_tools: bool = False
    delta_mcp: bool = False
    max_describe: int = disclosure.MAX_DESCRIBE


@runtime_checkable
class SummarisedTools(Protocol):
    """A `ToolSource` that has summaries for an index."""

    def summary(self, name: str) -> str | None:
        """Return a tool's summary, None where there is none or no such tool."""
        ...


class Shelf:
    """A source's tools by name, as one client sees them."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source
        self._summaries = source if isinstance(source, SummarisedTools) else None

    async def tools(self, context: RequestContext) -> dict[str, Json]:
        """Return the definitions' JSON texts in order."""
        listed = await self._source.list_tools(context)
        texts = [tool if isinstance(tool, bytes) else tool.to_json() for tool in listed]
        return {disclosure.name_of(text): text for text in texts}

    def entry(self, tool: Json, *, digest: bool) -> disclosure.Entry:
        """Return a definition's entry."""
        summary = None if self._summaries is None else self._summaries.summary(disclosure.name_of(tool))
        return disclosure.entry_of(tool, summary, digest=digest)


class ProgressiveTools:
    """The feature. `size` is the length of an index page, `ttl_ms` how long a modern client may keep what it got."""

    def __init__(self, source: ToolSource, options: Disclosure, size: int, ttl_ms: int) -> None:
        self._shelf = Shelf(source)
        self._options = options
        self._size = size
        self._ttl_ms = ttl_ms
        self.methods: Mapping[str, Method] = {
            disclosure.INDEX: Method(self._index),
            disclosure.DESCRIBE: Method(self._describe),
            disclosure.SEARCH: Method(self._search),
        }

    def capabilities(self, era: Era) -> dict[str, Any]:
        """Return the extension; in the legacy era also where clients look that drop keys they do not know."""
        if not self._options.methods:
            return {}
        declared = {disclosure.EXTENSION: disclosure.settings(self._options.max_describe)}
        return {"extensions": declared} if era == "modern" else {"extensions": declared, "experimental": declared}

    async def _index(self, call: IncomingCall, context: RequestContext) -> Json:
        tools = list((await self._shelf.tools(context)).values())
        query = call.text("query")
        if query:
            tools = disclosure.search(tools, query, len(tools))
        shown, following = page(call.method, tools, call.text("cursor"), self._limit(call, self._size))
        body: dict[str, Any] = {"tools": [self._entry(call, tool) for tool in shown]}
        if following is not None:
            body["nextCursor"] = following
        return self._result(call, body)

    async def _search(self, call: IncomingCall, context: RequestContext) -> Json:
        query = call.text("query")
        if not query:
            raise RpcError(INVALID_PARAMS, f"{call.method}: query is missing")
        tools = list((await self._shelf.tools(context)).values())
        found = disclosure.search(tools, query, self._limit(call, SEARCH_LIMIT))
        return self._result(call, {"tools": [self._entry(call, tool) for tool in found]})

    async def _describe(self, call: IncomingCall, context: RequestContext) -> Json:
        names = json_array(decode_member(call.params, "names"))
        if not names or not all(isinstance(name, str) for name in names):
            raise RpcError(INVALID_PARAMS, f"{call.method}: names must be an array of one or more strings")
        if len(names) > self._options.max_describe:
            raise RpcError(INVALID_PARAMS, f"{call.method}: at most {self._options.max_describe} names at once")
        form = call.text("format") or "json"
        if form not in disclosure.FORMATS:
            raise RpcError(INVALID_PARAMS, f"{call.method}: format is json or signature, not {form!r}")
        known = json_object(decode_member(call.params, "digests"))
        found = disclosure.describe(await self._shelf.tools(context), names, known)
        return self._result(call, disclosure.described_result(found, compact=form == "signature"))

    def _entry(self, call: IncomingCall, tool: Json) -> disclosure.Entry:
        return self._shelf.entry(tool, digest=decode_member(call.params, "digest") is not False)

    def _limit(self, call: IncomingCall, default: int) -> int:
        limit = decode_member(call.params, "limit")
        if limit is None:
            return default
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise RpcError(INVALID_PARAMS, f"{call.method}: limit must be a positive integer")
        return min(limit, self._size)

    def _result(self, call: IncomingCall, body: dict[str, Any]) -> Json:
        if call.era == "modern":
            body |= {"ttlMs": self._ttl_ms, "cacheScope": "private"}
        return msgspec.json.encode(body)

"""Three tools in place of all: search, describe, call. For clients that know nothing of an index (spec 6.3).

Their price: a host sees neither the tools' annotations nor their output schemas before a call, approves all calls
alike, and repeats no argument in a header.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from delta_actors.mcp.context import RequestContext, ToolSource
from delta_actors.mcp.progressive import Shelf
from delta_protocol.errors import Invalid
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp import disclosure
from delta_protocol.mcp.types import ToolDefinition, ToolResult, json_object
from delta_protocol.nearest import did_you_mean

SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
NAMES = (SEARCH, DESCRIBE, CALL)
_LIMIT = 20
_READ_ONLY = b'{"readOnlyHint":true}'

_DEFINITIONS = (
    ToolDefinition(
        SEARCH,
        None,
        "Find tools by words; without words, list them.",
        b'{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1}},'
        b'"additionalProperties":false}',
        annotations=_READ_ONLY,
    ),
    ToolDefinition(
        DESCRIBE,
        None,
        "Show how to call tools. The format schema shows their whole definitions.",
        b'{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1},'
        b'"format":{"enum":["signature","schema"]}},"required":["names"],"additionalProperties":false}',
        annotations=_READ_ONLY,
    ),
    ToolDefinition(
        CALL,
        None,
        "Call a tool by its name; describe it first.",
        b'{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},'
        b'"required":["name"],"additionalProperties":false}',
    ),
)
_SCHEMAS = {tool.name: tool.input_schema for tool in _DEFINITIONS}


class MetaTools:
    """The three tools of one source. `max_describe` bounds the names of one description."""

    def __init__(self, source: ToolSource, max_describe: int) -> None:
        self._shelf = Shelf(source)
        self._max_describe = max_describe

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return what the list shows."""
        return _DEFINITIONS

    def target(self, arguments: Json) -> tuple[str, Json]:
        """Return the name and the arguments that `call_tool` was given. Raises `Invalid` for what does not fit."""
        given = _read(CALL, arguments)
        return given["name"], msgspec.json.encode(given.get("arguments", {}))

    async def serve(self, name: str, arguments: Json, context: RequestContext) -> ToolResult:
        """Answer `search_tools` and `describe_tool`. Raises `Invalid`."""
        given = _read(name, arguments)
        tools = await self._shelf.tools(context)
        if name == SEARCH:
            return ToolResult.text(self._found(tools, given.get("query", ""), given.get("limit", _LIMIT)))
        return ToolResult.text(self._described(tools, given["names"], given.get("format", "signature")))

    async def unknown(self, name: str, context: RequestContext) -> Invalid:
        """Return the refusal of a tool that is not there, naming the nearest."""
        return Invalid(_unknown(name, await self._shelf.tools(context)), tool=name)

    def _found(self, tools: dict[str, Json], query: str, limit: int) -> str:
        listed = list(tools.values())
        found = disclosure.search(listed, query, len(listed)) if query.strip() else listed
        if not found:
            return f"No tool is about {query!r}. There are {len(listed)}; {SEARCH} without a query lists them."
        lines = [self._shelf.entry(tool, digest=False).line for tool in found[:limit]]
        if len(found) > limit:
            lines.append(f"… {len(found) - limit} more: narrow the query or raise limit")
        return "\n".join(lines)

    def _described(self, tools: dict[str, Json], names: list[str], form: str) -> str:
        if len(names) > self._max_describe:
            raise Invalid(f"{DESCRIBE}: at most {self._max_describe} names at once")
        unknown = [_unknown(name, tools) for name in dict.fromkeys(names) if name not in tools]
        if len(unknown) == len(set(names)):
            raise Invalid("\n".join(unknown))
        shown = [_shown(tools[name], form) for name in dict.fromkeys(names) if name in tools]
        return "\n\n".join([*shown, *unknown])


def _shown(tool: Json, form: str) -> str:
    if form == "schema":
        return tool.decode()
    told = disclosure.signature(tool)
    hints = f" [{', '.join(told['hints'])}]" if "hints" in told else ""
    description = f"\n{told['description']}" if "description" in told else ""
    return f"{told['signature']}{hints}{description}"


def _unknown(name: str, tools: dict[str, Json]) -> str:
    near = did_you_mean(name, tools)
    return f"Unknown tool: {name}" + (f"; {near}" if near else f"; {SEARCH} finds tools")


def _read(name: str, arguments: Json) -> dict[str, Any]:
    """Return the arguments of a meta tool. Raises `Invalid`, naming what is wrong."""
    from delta_protocol.catalogue.arguments import fit
    from delta_protocol.catalogue.signatures import line_of

    schema = _SCHEMAS[name]
    return json_object(msgspec.json.decode(fit(name, schema, arguments, line=partial(line_of, name, schema)).arguments))

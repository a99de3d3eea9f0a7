"""Tools made of plain blocking functions, run one at a time in a thread beside the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from delta_actors.mcp import RequestContext, TextContent, ToolDefinition, ToolResult, UnknownTool
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json

READS = {"readOnlyHint": True, "openWorldHint": False}
"""Annotations of a tool that changes nothing."""


@dataclass(frozen=True, slots=True)
class BlockingTool:
    """`arguments` is a Struct type; `run` takes one of it and returns the structured result (a JSON object)."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    result: type[msgspec.Struct]
    annotations: dict[str, bool]
    run: Callable[[Any], Any]

    def definition(self) -> ToolDefinition:
        """Return the tool as a client sees it."""
        return ToolDefinition(
            self.name,
            self.title,
            self.description,
            _schema(self.arguments),
            _schema(self.result),
            msgspec.json.encode(self.annotations),
        )


class BlockingTools:
    """A `ToolSource` of blocking tools. What a tool raises as a `DeltaError` becomes a result with `isError`."""

    def __init__(self, tools: Sequence[BlockingTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._definitions = [tool.definition() for tool in tools]
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def list_tools(self, context: RequestContext) -> Sequence[ToolDefinition | Json]:  # noqa: ARG002 - ToolSource
        """Return the definitions, in the given order."""
        return self._definitions

    async def call_tool(self, name: str, arguments: Json, context: RequestContext) -> ToolResult | Json:  # noqa: ARG002
        """Run the tool. Raises `UnknownTool`, `Invalid` for arguments that do not fit."""
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool(name)
        try:
            given = msgspec.json.decode(arguments, type=tool.arguments)
        except msgspec.DecodeError as error:
            raise Invalid(f"{name}: {error}") from None
        result = msgspec.json.encode(await trio.to_thread.run_sync(tool.run, given, limiter=self._one_at_a_time))
        return ToolResult((TextContent(result.decode()),), result)


def _schema(struct: type[msgspec.Struct]) -> Json:
    """Return the struct's JSON Schema with its root inline, as MCP wants it, without the name of the class."""
    (_,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    root = components.pop(struct.__name__)
    if components:
        root["$defs"] = components
    return msgspec.json.encode({key: value for key, value in root.items() if key not in ("title", "description")})

"""Plain functions as tools: the schema comes from the signature, arguments are checked against it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import UnknownTool
from delta_protocol.mcp.types import TextContent, ToolDefinition, ToolResult


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """One function, its arguments as a Struct type, and the parameter that takes the `RequestContext`."""

    definition: ToolDefinition
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    context: str | None

    async def call(self, arguments: Json, context: RequestContext) -> ToolResult:
        """Run the function. Arguments that do not fit become a result with `isError`, which a model can correct."""
        try:
            values = msgspec.structs.asdict(msgspec.json.decode(arguments, type=self.arguments))
        except (msgspec.DecodeError, RecursionError) as error:
            return ToolResult.text(f"{self.definition.name}: {error}", is_error=True)
        if self.context is not None:
            values[self.context] = context
        returned = self.function(**values)
        if inspect.isawaitable(returned):
            returned = await returned
        return _result(returned)


class FunctionTools:
    """The tools a server was given by its `tool` decorator, in the order of definition."""

    def __init__(self) -> None:
        self._tools: dict[str, FunctionTool] = {}

    def add(self, tool: FunctionTool) -> None:
        """Add a tool. Raises `ValueError` for a name that is taken."""
        name = tool.definition.name
        if name in self._tools:
            raise ValueError(f"there is already a tool called {name!r}")
        self._tools[name] = tool

    async def list_tools(self, context: RequestContext) -> Sequence[ToolDefinition | Json]:  # noqa: ARG002 - ToolSource
        """Return the definitions."""
        return [tool.definition for tool in self._tools.values()]

    async def call_tool(self, name: str, arguments: Json, context: RequestContext) -> ToolResult | Json:
        """Call the function of that name. Raises `UnknownTool`."""
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool(name)
        return await tool.call(arguments, context)


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None,
    title: str | None,
    description: str | None,
    annotations: Json | None,
) -> FunctionTool:
    """Return `function` as a tool.

    Every parameter but one annotated `RequestContext` is an argument; it needs a type that msgspec can decode.
    Raises `TypeError` for parameters that cannot be arguments.
    """
    hints = typing.get_type_hints(function)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{parameter.name}: a tool takes named parameters only")
        kind = hints.get(parameter.name, Any)
        if kind is RequestContext:
            context = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, parameter.default))
    tool_name = name or str(getattr(function, "__name__", "tool"))
    arguments = msgspec.defstruct("arguments", fields, kw_only=True, forbid_unknown_fields=True)
    definition = ToolDefinition(
        tool_name, title, description or inspect.getdoc(function), _input_schema(arguments), None, annotations
    )
    return FunctionTool(definition, function, arguments, context)


def _input_schema(arguments: type[msgspec.Struct]) -> Json:
    (_,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components.pop("arguments")
    schema.pop("title", None)
    if components:
        schema["$defs"] = components
    return msgspec.json.encode(schema)


def _result(returned: Any) -> ToolResult:  # noqa: ANN401 - whatever the function returned
    if isinstance(returned, ToolResult):
        return returned
    if returned is None:
        return ToolResult()
    if isinstance(returned, str):
        return ToolResult.text(returned)
    text = msgspec.json.encode(returned)
    structured = text if text.startswith(b"{") else msgspec.json.encode({"result": msgspec.Raw(text)})
    return ToolResult((TextContent(text.decode()),), structured)

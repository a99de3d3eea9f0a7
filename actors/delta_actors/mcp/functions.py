"""Plain functions as tools: the schemas come from the signature, arguments are checked against them."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.signatures import Signature, each, json_schema, name_of, read_signature
from delta_protocol.errors import Invalid
from delta_protocol.jsonrpc import INTERNAL_ERROR, Json
from delta_protocol.mcp.bearer import check_scopes
from delta_protocol.mcp.errors import RpcError, UnknownTool
from delta_protocol.mcp.mirrors import Mirror, find_mirrors
from delta_protocol.mcp.tasks import TaskSupport
from delta_protocol.mcp.types import (
    AudioContent,
    Block,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolDefinition,
    ToolResult,
)

_BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What a tool says of itself beyond its function. None or empty: from the function, or not said.

    `input_schema` and `output_schema` are shown as given and checked; the function then names only the arguments it
    wants. `meta` goes into the definition's `_meta`. `scopes` are needed to call it with a token.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    input_schema: Json | None = None
    output_schema: Json | None = None
    icons: tuple[Icon, ...] = ()
    meta: Json | None = None
    task: TaskSupport | None = None
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """One function as a tool. `given_input` and `given_output`: schemas to check against, beyond the signature."""

    definition: ToolDefinition
    signature: Signature
    mirrors: tuple[Mirror, ...]
    given_input: Json | None
    given_output: Json | None
    task: TaskSupport | None = None
    scopes: tuple[str, ...] = ()

    async def call(self, arguments: Json, context: RequestContext) -> ToolResult:
        """Run the function. Arguments that do not fit become a result with `isError`, which a model can correct.

        Raises `RpcError` -32603 where the result does not fit the output schema.
        """
        try:
            if self.given_input is not None:
                _check(self.given_input, arguments)
            values = self.signature.from_json(arguments)
        except (msgspec.DecodeError, RecursionError, Invalid) as error:
            return ToolResult.text(f"{self.definition.name}: {error}", is_error=True)
        result = _result(await self.signature.call(values, context))
        if self.given_output is not None and not result.is_error:
            self._check_output(self.given_output, result)
        return result

    def _check_output(self, schema: Json, result: ToolResult) -> None:
        try:
            if result.structured is None:
                raise Invalid("there is no structured content")
            _check(schema, result.structured)
        except Invalid as error:
            name = self.definition.name
            raise RpcError(INTERNAL_ERROR, f"{name}: the result breaks its output schema: {error}") from None


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

    def remove(self, name: str) -> None:
        """Remove a tool. Raises `KeyError` where there is none of that name."""
        del self._tools[name]

    def mirrors(self, name: str) -> Sequence[Mirror]:
        """Return the tool's arguments that are repeated in headers."""
        tool = self._tools.get(name)
        return () if tool is None else tool.mirrors

    def scopes(self, name: str) -> Sequence[str]:
        """Return the scopes that a token needs for the tool."""
        tool = self._tools.get(name)
        return () if tool is None else tool.scopes

    def task_support(self, name: str) -> TaskSupport | None:
        """Return whether the tool may run as a task."""
        tool = self._tools.get(name)
        return None if tool is None else tool.task

    def any_task_support(self) -> bool:
        """Whether any tool may."""
        return any(tool.task is not None for tool in self._tools.values())

    async def list_tools(self, context: RequestContext) -> Sequence[ToolDefinition | Json]:  # noqa: ARG002 - ToolSource
        """Return the definitions."""
        return [tool.definition for tool in self._tools.values()]

    async def call_tool(self, name: str, arguments: Json, context: RequestContext) -> ToolResult | Json:
        """Call the function of that name. Raises `UnknownTool`."""
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool(name)
        return await tool.call(arguments, context)


def function_tool(function: Callable[..., Any], options: ToolOptions) -> FunctionTool:
    """Return `function` as a tool.

    Raises `TypeError` for parameters that cannot be arguments, `ValueError` for malformed scopes, `Invalid` for
    a schema that is none, `BadMirror` for an `x-mcp-header` that clients must refuse.
    """
    check_scopes(options.scopes)
    signature = read_signature(function, closed=options.input_schema is None)
    for schema in (options.input_schema, options.output_schema):
        if schema is not None:
            _compiled(schema)
    shown = options.input_schema or signature.schema()
    definition = ToolDefinition(
        options.name or name_of(function),
        options.title,
        options.description or inspect.getdoc(function),
        shown,
        options.output_schema or _output_schema(signature.returns),
        _annotations(options),
        options.meta,
        options.icons,
    )
    return FunctionTool(
        definition,
        signature,
        find_mirrors(shown),
        options.input_schema,
        options.output_schema,
        options.task,
        options.scopes,
    )


def _annotations(options: ToolOptions) -> Json | None:
    hints = {
        "readOnlyHint": options.read_only,
        "destructiveHint": options.destructive,
        "idempotentHint": options.idempotent,
        "openWorldHint": options.open_world,
    }
    given = {key: value for key, value in hints.items() if value is not None}
    return msgspec.json.encode(given) if given else None


def _output_schema(returns: Any) -> Json | None:  # noqa: ANN401 - a type
    """Return the schema of a declared record; other types would cost every client tokens and tell little."""
    if not isinstance(returns, type) or returns in (ToolResult, *_BLOCKS):
        return None
    kind: type[Any] = returns
    record = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)
    return json_schema(kind) if record else None


def _result(returned: Any) -> ToolResult:  # noqa: ANN401 - whatever the function returned
    if isinstance(returned, ToolResult):
        return returned
    if returned is None:
        return ToolResult()
    if isinstance(returned, str):
        return ToolResult.text(returned)
    blocks = _blocks(returned)
    if blocks:
        return ToolResult(blocks)
    text = msgspec.json.encode(returned)
    structured = text if text.startswith(b"{") else msgspec.json.encode({"result": msgspec.Raw(text)})
    return ToolResult((TextContent(text.decode()),), structured)


def _blocks(returned: Any) -> tuple[Block, ...]:  # noqa: ANN401 - whatever the function returned
    """Return the content blocks that a function returned, none where it returned something else."""
    items = tuple(each(returned))
    return items if all(isinstance(item, _BLOCKS) for item in items) else ()


def _compiled(schema: Json) -> Any:  # noqa: ANN401 - a validator
    # Loaded where a schema is given: the validator's library costs as much time as the rest of a small server.
    from delta_protocol.catalogue.validators import compiled

    return compiled(schema)


def _check(schema: Json, instance: Json) -> None:
    """Raise `Invalid`, saying where and why, if `instance` does not conform."""
    from delta_protocol.codecs import exact_json

    for error in _compiled(schema).iter_errors(exact_json.decode(instance)):
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        message = str(error.message)[:500]
        raise Invalid(f"{place.lstrip('.')}: {message}" if place else message)

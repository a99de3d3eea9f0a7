"""Plain functions as tools: the schemas come from the signature, arguments are checked against them."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import math
import re
import typing
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec
import trio

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.failures import lone
from delta_actors.mcp.result_policy import READ, ResultPolicy, ResultShaper
from delta_actors.mcp.signatures import Signature, each, json_schema, name_of, read_signature
from delta_protocol.errors import DeltaError, Invalid
from delta_protocol.jsonrpc import INTERNAL_ERROR, Json
from delta_protocol.mcp.bearer import check_scopes
from delta_protocol.mcp.disclosure import MAX_SUMMARY
from delta_protocol.mcp.errors import McpError, RpcError, UnknownTool
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

logger = logging.getLogger(__name__)

MAX_MESSAGE = 4000
"""Characters that are shown of a function's exception."""
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What a tool says of itself beyond its function. None or empty: from the function, or not said.

    `input_schema` and `output_schema` are shown as given and checked; the function then names only the arguments it
    wants. `meta` goes into the definition's `_meta`. `scopes` are needed to call it with a token. `summary` is what an
    index shows of it, at most `MAX_SUMMARY` characters; None: the description's first line, where that is short enough.
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
    summary: str | None = None


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
    summary: str | None = None

    async def call(self, arguments: Json, context: RequestContext, shaper: ResultShaper | None = None) -> ToolResult:
        """Run the function. Arguments that do not fit become a result with `isError`, which a model can correct, and
        so does what the function raises, with its message (spec 1.10); `shaper` keeps the result short.

        Raises `RpcError` -32603 where the result does not fit the output schema.
        """
        try:
            values, notes = self._values(arguments)
        except Invalid as error:
            return ToolResult.text(error.message, is_error=True)
        try:
            result = _result(await self.signature.call(values, context))
        except Exception as error:  # noqa: BLE001 - the author's function: what it raises is its result
            result = self._failed(error, shaper)
        if self.given_output is not None and not result.is_error:
            self._check_output(self.given_output, result)
        if shaper is not None:
            result = shaper.shape(result, context, structured=self.definition.output_schema is not None)
        return msgspec.structs.replace(result, content=(*result.content, *notes)) if notes else result

    def _failed(self, raised: Exception, shaper: ResultShaper | None) -> ToolResult:
        """Return what an exception of the function becomes; raise it again where the protocol has a word for it."""
        error = lone(raised)
        withdrawn = trio.current_effective_deadline() == -math.inf
        if withdrawn or isinstance(error, DeltaError | McpError | trio.TooSlowError):
            raise raised
        limited = None if shaper is None else shaper.failed(error, self.definition.name)
        if limited is not None:
            return limited
        logger.warning("the tool %s failed", self.definition.name, exc_info=raised)
        return ToolResult.text(str(error)[:MAX_MESSAGE] or type(error).__name__, is_error=True)

    def _values(self, arguments: Json) -> tuple[dict[str, Any], tuple[TextContent, ...]]:
        """Return the function's arguments, and what is to be said about them. Raises `Invalid` in three lines.

        The signature alone takes what fits it; only what does not, or a given schema, needs the validator.
        """
        if self.given_input is None:
            try:
                return self.signature.from_json(arguments), ()
            except (msgspec.DecodeError, RecursionError):
                pass
        name = self.definition.name
        from delta_protocol.catalogue import arguments as checks
        from delta_protocol.catalogue.signatures import line_of

        line = partial(line_of, name, self.definition.input_schema)
        fitted = checks.fit(name, self.definition.input_schema, arguments, line=line)
        try:
            values = self.signature.from_json(fitted.arguments)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid(f"wrong arguments for {name}\n{error}\n{line()}") from None
        if not fitted.converted:
            return values, ()
        note = f"Note: {', '.join(fitted.converted)} came as JSON text and was parsed; give the value itself."
        return values, (TextContent(note),)

    def _check_output(self, schema: Json, result: ToolResult) -> None:
        try:
            if result.structured is None:
                raise Invalid("there is no structured content")
            _check(schema, result.structured)
        except Invalid as error:
            name = self.definition.name
            raise RpcError(INTERNAL_ERROR, f"{name}: the result breaks its output schema: {error}") from None


class FunctionTools:
    """The tools a server was given by its `tool` decorator, in the order of definition.

    `summaries`: each must have one. `reserved` names are the server's own. With `results` long results are cut, and
    one more tool reads on in them.
    """

    def __init__(
        self, *, summaries: bool = False, reserved: Collection[str] = (), results: ResultPolicy | None = None
    ) -> None:
        self._tools: dict[str, FunctionTool] = {}
        self._shaper: ResultShaper | None = None
        if results is not None:
            self._shaper = ResultShaper(results)
            options = ToolOptions(READ, summary="Read on in a long result", read_only=True)
            self._tools[READ] = function_tool(self._shaper.read, options)
        self._summaries = summaries
        self._reserved = frozenset(reserved)

    def add(self, tool: FunctionTool) -> None:
        """Add a tool. Raises `ValueError` for a name that is taken, and for a missing summary."""
        name = tool.definition.name
        if name in self._tools:
            raise ValueError(f"there is already a tool called {name!r}")
        if name in self._reserved:
            raise ValueError(f"{name!r} is a tool that this server adds by itself")
        if self._summaries and tool.summary is None:
            raise ValueError(
                f"{name}: give a summary of at most {MAX_SUMMARY} chars; the description's first line is longer, "
                "or there is none"
            )
        self._tools[name] = tool

    def remove(self, name: str) -> None:
        """Remove a tool. Raises `KeyError` where there is none of that name."""
        del self._tools[name]

    def mirrors(self, name: str) -> Sequence[Mirror]:
        """Return the tool's arguments that are repeated in headers."""
        tool = self._tools.get(name)
        return () if tool is None else tool.mirrors

    def summary(self, name: str) -> str | None:
        """Return what an index shows of the tool."""
        tool = self._tools.get(name)
        return None if tool is None else tool.summary

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
        return await tool.call(arguments, context, None if name == READ else self._shaper)


def function_tool(function: Callable[..., Any], options: ToolOptions) -> FunctionTool:
    """Return `function` as a tool.

    Raises `TypeError` for parameters that cannot be arguments, `ValueError` for malformed scopes, a malformed name and
    a long summary, `Invalid` for a schema that is none or whose arguments are no object, `BadMirror` for an
    `x-mcp-header` that clients must refuse.
    """
    check_scopes(options.scopes)
    name = options.name or name_of(function)
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r}: a tool's name is 1 to 128 of the characters A-Z a-z 0-9 _ - . /")
    signature = read_signature(function, closed=options.input_schema is None)
    for schema in (options.input_schema, options.output_schema):
        if schema is not None:
            _compiled(schema)
    if options.input_schema is not None and not _takes_object(options.input_schema):
        raise Invalid(f"{name}: the input schema's root must be of the type object")
    shown = options.input_schema or signature.schema()
    description = options.description or inspect.getdoc(function)
    definition = ToolDefinition(
        name,
        options.title,
        description,
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
        _summary(name, options.summary, description),
    )


def _takes_object(schema: Json) -> bool:
    root = msgspec.json.decode(schema)
    return isinstance(root, dict) and cast("dict[str, object]", root).get("type") == "object"


def _summary(name: str, given: str | None, description: str | None) -> str | None:
    """Return the summary, or a description's first line that can stand for it. Raises `ValueError`."""
    if given is not None:
        if not given.strip() or len(given) > MAX_SUMMARY or "\n" in given:
            raise ValueError(f"{name}: a summary is one line of at most {MAX_SUMMARY} chars, not {len(given)}")
        return given
    first = (description or "").strip().partition("\n")[0].strip()
    return first if 0 < len(first) <= MAX_SUMMARY else None


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

"""How a plain function takes a request: its parameters as a Struct type, and where it wants the `RequestContext`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_protocol.jsonrpc import Json


@dataclass(frozen=True, slots=True)
class Signature:
    """`arguments` is a Struct type with a field per parameter; `context` names the parameter for the context.

    `returns` is the annotated return type, `Any` where there is none.
    """

    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    context: str | None
    returns: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are arguments, in order."""
        return self.arguments.__struct_fields__

    def from_json(self, arguments: Json) -> dict[str, Any]:
        """Return the values of the arguments. Raises `msgspec.DecodeError`, `RecursionError`."""
        return msgspec.structs.asdict(msgspec.json.decode(arguments, type=self.arguments))

    def from_strings(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of arguments that are given as text. Raises `msgspec.ValidationError`."""
        return msgspec.structs.asdict(msgspec.convert(arguments, self.arguments, strict=False))

    async def call(self, values: dict[str, Any], context: RequestContext) -> Any:  # noqa: ANN401 - the function's own
        """Run the function, which may be async, and return what it returns."""
        if self.context is not None:
            values[self.context] = context
        returned = self.function(**values)
        return await returned if inspect.isawaitable(returned) else returned

    def schema(self) -> Json:
        """Return the JSON Schema of the arguments."""
        return json_schema(self.arguments)


def read_signature(function: Callable[..., Any], *, closed: bool = True) -> Signature:
    """Return the function's signature; `closed` refuses arguments that it does not name.

    Every parameter but one annotated `RequestContext` is an argument; it needs a type that msgspec can decode.
    Raises `TypeError` for parameters that cannot be arguments.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{parameter.name}: a handler takes named parameters only")
        kind = hints.get(parameter.name, Any)
        if kind is RequestContext:
            context = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, parameter.default))
    arguments = msgspec.defstruct("arguments", fields, kw_only=True, forbid_unknown_fields=closed)
    return Signature(function, arguments, context, hints.get("return", Any))


def each(returned: Any) -> list[Any]:  # noqa: ANN401 - whatever the function returned
    """Return the items of a returned list or tuple, else the one thing that was returned."""
    return (
        list(cast("list[object] | tuple[object, ...]", returned)) if isinstance(returned, list | tuple) else [returned]
    )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that a handler has where none is given."""
    return str(getattr(function, "__name__", "handler"))


def json_schema(kind: Any) -> Json:  # noqa: ANN401 - a type
    """Return the JSON Schema (2020-12) of a type whose JSON is an object."""
    (root,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components.pop(root["$ref"].rpartition("/")[2]) if "$ref" in root else root
    schema.pop("title", None)
    if components:
        schema["$defs"] = components
    return msgspec.json.encode(schema)

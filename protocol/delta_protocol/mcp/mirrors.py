"""Arguments that a modern HTTP client repeats in `Mcp-Param-*` headers (`x-mcp-header`, spec 1.4, 1.5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import HEADER_MISMATCH, RpcError
from delta_protocol.mcp.http_ladder import decode_header_value, encode_header_value
from delta_protocol.mcp.types import json_array, json_object
from delta_protocol.mcp.versions import HEADER_PARAM

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_SAFE = 2**53 - 1
_TYPES = ("string", "integer", "boolean")


class Mirror(msgspec.Struct, frozen=True):
    """One annotated property: its header (lower case) and its way through nested objects."""

    header: str
    path: tuple[str, ...]
    type: str


class BadMirror(ValueError):
    """An annotation that clients must refuse; says which."""


def find_mirrors(schema: Json) -> tuple[Mirror, ...]:
    """Return the annotated properties of an input schema. Raises `BadMirror` for an invalid annotation (spec 1.5)."""
    if b"x-mcp-header" not in schema:
        return ()
    found: dict[str, Mirror] = {}
    _collect(msgspec.json.decode(schema), (), found, reachable=True)
    return tuple(found.values())


def _collect(node: Any, path: tuple[str, ...], found: dict[str, Mirror], *, reachable: bool) -> None:  # noqa: ANN401
    for item in json_array(node):
        _collect(item, path, found, reachable=False)
    schema = json_object(node)
    if "x-mcp-header" in schema:
        _add(schema, path, found, reachable=reachable and bool(path))
    for key, value in schema.items():
        if key == "properties":
            for name, part in json_object(value).items():
                _collect(part, (*path, name), found, reachable=reachable)
        elif key not in ("const", "default", "enum", "examples"):
            _collect(value, path, found, reachable=False)


def _add(schema: dict[str, Any], path: tuple[str, ...], found: dict[str, Mirror], *, reachable: bool) -> None:
    name, kind = schema["x-mcp-header"], schema.get("type")
    where = ".".join(path) or "the schema"
    if not isinstance(name, str) or _TOKEN.match(name) is None:
        raise BadMirror(f"{where}: x-mcp-header must be an HTTP token")
    if not reachable:
        raise BadMirror(f"{where}: x-mcp-header must be on a property that is reached by properties alone")
    if kind not in _TYPES:
        raise BadMirror(f"{where}: x-mcp-header needs the type string, integer or boolean")
    if name.lower() in found:
        raise BadMirror(f"{where}: the header {name} is there twice")
    found[name.lower()] = Mirror(HEADER_PARAM + name.lower(), path, kind)


def check_mirrors(mirrors: Sequence[Mirror], arguments: Json, headers: Mapping[str, Sequence[str]]) -> None:
    """Compare the headers with the arguments. Raises `RpcError` -32020 where they differ, or one is missing."""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"arguments: {error}") from None
    for mirror in mirrors:
        value = given
        for step in mirror.path:
            value = json_object(value).get(step)
        sent = headers.get(mirror.header, ())
        where = f"the header {mirror.header}"
        if value is None:
            if sent:
                raise RpcError(HEADER_MISMATCH, f"{where} repeats an argument that is not given")
        elif len(sent) != 1:
            raise RpcError(HEADER_MISMATCH, f"{where} must repeat {'.'.join(mirror.path)} once")
        elif not _same(mirror.type, value, decode_header_value(sent[0])):
            raise RpcError(HEADER_MISMATCH, f"{where} and {'.'.join(mirror.path)} differ")


def mirror_headers(mirrors: Sequence[Mirror], arguments: Json) -> dict[str, str]:
    """Return the headers that repeat the annotated arguments; null and absent ones have none (spec 1.5).

    Raises `ValueError` for an integer that a header may not carry, and for arguments that are no JSON.
    """
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"arguments: {error}") from None
    headers: dict[str, str] = {}
    for mirror in mirrors:
        value = given
        for step in mirror.path:
            value = json_object(value).get(step)
        if value is not None:
            headers[mirror.header] = _header_value(".".join(mirror.path), value)
    return headers


def _header_value(where: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > _SAFE:
            raise ValueError(f"{where}: {value} is beyond what a header may carry (2^53 - 1)")
        case str():
            return encode_header_value(value)
        case _:
            return encode_header_value(msgspec.json.encode(value).decode())


def _same(kind: str, value: Any, text: str) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if kind == "integer" and isinstance(value, int | float):
        return _number(text) == value
    return isinstance(value, str) and text == value


def _number(text: str) -> int | float:
    """Return the number that `text` writes, NaN for none: `42` and `42.0` are the same (spec 1.4)."""
    try:
        number = msgspec.json.decode(text.encode(), type=int | float)
    except msgspec.DecodeError:
        return math.nan
    return number

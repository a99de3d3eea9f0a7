"""Schemas in a compact TypeScript-like notation.

A parameter without a type is a string. ``open|closed`` is a choice of those strings, ``x?`` may be left out, ``x[]`` is
an array of strings, ``{a, b?}`` an object. Only keyword positions are walked and references are followed to a bounded
depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import cast

from delta_protocol.catalogue import schemas
from delta_protocol.catalogue.visible import one_line
from delta_protocol.codecs import exact_json

_SHORT = {"integer": "number", "number": "number", "boolean": "boolean", "null": "null", "object": "object"}
MAX_CHOICES = 12
MAX_DEPTH = 4
"""An object within an object is two steps down, an array or an alternative one; `Level.EXACT` goes down further."""
LITERAL_LENGTH = 40


class Level(IntEnum):
    """How much of a signature is shown; each step down is shorter."""

    NAME = 0
    PARAMETERS = 1
    TYPED = 2
    EXACT = 3


def parameters(schema: object, level: Level, leave_out: frozenset[str] = frozenset()) -> str:
    """Return the parameters of an input schema as ``{a, b?: number}``; empty when there are none."""
    root = schemas.as_schema(schema)
    members = {name: part for name, part in schemas.properties(root).items() if name not in leave_out}
    if not members:
        return "{}" if root.get("additionalProperties") not in (None, False) else ""
    return _object(members, frozenset(schemas.required(root)), root, level, 0)


def entity(fields: Mapping[str, schemas.Schema], root: schemas.Schema, level: Level) -> str:
    """Return an entity's fields as ``{id, status: open|closed, labels[]}``."""
    return _object(fields, frozenset(fields), root, level, 0)


def kind(schema: schemas.Schema, root: schemas.Schema, level: Level, depth: int = 0) -> str:
    """Return a type; empty for a plain string below `Level.EXACT`."""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list) and choices:
        return _choices(cast("list[object]", choices), level)
    options = schemas.alternatives(schema, root)
    if options != (schema,):
        return _union(options, root, level, depth)
    found = sorted(schemas.types(schema, root))
    if not found:
        return "any" if level is Level.EXACT else ""
    if len(found) > 1:
        return _union(tuple({**schema, "type": name} for name in found), root, level, depth)
    return _single(found[0], schema, root, level, depth)


def literal(value: object) -> str:
    """Return a JSON value as a choice: bare words unquoted, anything else as JSON."""
    if isinstance(value, str) and value.replace("_", "a").replace("-", "a").replace(".", "a").isalnum():
        return one_line(value, LITERAL_LENGTH)
    return one_line(exact_json.encode(value).decode(), LITERAL_LENGTH)


def member(name: str) -> str:
    """Return a property name, quoted where it is no identifier."""
    plain = one_line(name, LITERAL_LENGTH * 2)
    return plain if plain.isidentifier() and plain == name else exact_json.encode(plain).decode()


def _object(
    members: Mapping[str, schemas.Schema], needed: frozenset[str], root: schemas.Schema, level: Level, depth: int
) -> str:
    parts: list[str] = []
    for name, schema in members.items():
        shown = member(name) + ("" if name in needed else "?")
        typed = kind(schema, root, level, depth + 2) if level >= Level.TYPED else ""
        if not typed:
            parts.append(shown)
        elif typed == "[]":
            parts.append(f"{shown}[]")
        else:
            parts.append(f"{shown}: {typed}")
    return "{" + ", ".join(parts) + "}"


def _single(name: str, schema: schemas.Schema, root: schemas.Schema, level: Level, depth: int) -> str:
    if name == "string":
        return "string" if level is Level.EXACT else ""
    if name == "array":
        item = kind(schemas.items(schema, root), root, level, depth + 1) if depth < MAX_DEPTH * 3 else ""
        return f"({item})[]" if "|" in item and not item.startswith("{") else f"{item}[]"
    if name == "object":
        limit = MAX_DEPTH * 3 if level is Level.EXACT else MAX_DEPTH
        members = schemas.properties(schema, root)
        if members and depth < limit:
            return _object(members, frozenset(schemas.required(schema, root)), root, level, depth)
        return "object"
    if name == "integer" and level is Level.EXACT:
        return "integer"
    return _SHORT.get(name, "any")


def _union(options: tuple[schemas.Schema, ...], root: schemas.Schema, level: Level, depth: int) -> str:
    shown: list[str] = []
    for option in options:
        if option.get("type") == "null" and level is not Level.EXACT:
            continue
        # A reference within an alternative counts as a step down, so that recursion ends.
        text = kind(option, root, level, depth + 1) if depth < MAX_DEPTH * 3 else "object"
        shown.append(text or "string")
    unique = list(dict.fromkeys(shown))
    if len(unique) == 1:
        return "" if unique[0] == "string" and level is not Level.EXACT else unique[0]
    return "|".join(unique)


def _choices(choices: list[object], level: Level) -> str:
    shown = [literal(choice) for choice in choices]
    if level is not Level.EXACT and len(shown) > MAX_CHOICES:
        shown = [*shown[:MAX_CHOICES], "…"]
    return "|".join(shown)

"""Looking into JSON Schemas: parameters, fields, local references. Only keyword positions are walked, so a property
that is called `type` or `properties` is a property (acceptance 19); nothing is ever fetched (acceptance 16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Schema = Mapping[str, Any]

MAX_REFS = 16
"""How many references in a row are followed."""

EMPTY: Schema = {}


def as_schema(value: object) -> Schema:
    """Return `value` as a schema; a boolean schema or anything else says nothing and becomes the empty one."""
    return cast("Schema", value) if isinstance(value, Mapping) else EMPTY


def resolve(schema: object, root: Schema) -> Schema:
    """Return the schema that `schema` stands for, local ``$ref`` followed. One that leads nowhere becomes empty."""
    found = as_schema(schema)
    for _ in range(MAX_REFS):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            return found
        found = _local(reference, root)
    return EMPTY


def properties(schema: object, root: Schema | None = None) -> dict[str, Schema]:
    """Return the named properties of an object schema, in order, each resolved."""
    whole = as_schema(schema) if root is None else root
    members = resolve(schema, whole).get("properties")
    if not isinstance(members, Mapping):
        return {}
    return {name: resolve(member, whole) for name, member in cast("Mapping[str, object]", members).items()}


def required(schema: object, root: Schema | None = None) -> tuple[str, ...]:
    """Return the names that an object schema requires."""
    names = resolve(schema, as_schema(schema) if root is None else root).get("required")
    return (
        tuple(name for name in cast("list[object]", names) if isinstance(name, str)) if isinstance(names, list) else ()
    )


def types(schema: Schema, root: Schema) -> frozenset[str]:
    """Return the JSON types a value may have; empty = not said. `null` among alternatives is included."""
    stated = schema.get("type")
    if isinstance(stated, str):
        return frozenset({stated})
    if isinstance(stated, list):
        return frozenset(name for name in cast("list[object]", stated) if isinstance(name, str))
    found: set[str] = set()
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            for option in cast("list[object]", options):
                inner = resolve(option, root)
                if not isinstance(inner.get("anyOf"), list) and not isinstance(inner.get("oneOf"), list):
                    found |= types(inner, root)
    if not found and "properties" in schema:
        return frozenset({"object"})
    return frozenset(found)


def is_a(kind: str, schema: Schema, root: Schema) -> bool:
    """Whether every value but null is of the JSON type `kind`."""
    return types(schema, root) - {"null"} == frozenset({kind})


def is_scalar(schema: Schema, root: Schema) -> bool:
    """Whether every value is a string or a number."""
    found = types(schema, root) - {"null"}
    return bool(found) and found <= {"string", "integer", "number"}


def items(schema: Schema, root: Schema) -> Schema:
    """Return the schema of an array's items, through an alternative with null if there is one."""
    for option in alternatives(schema, root):
        if "items" in option:
            return resolve(option["items"], root)
    return EMPTY


def alternatives(schema: Schema, root: Schema) -> tuple[Schema, ...]:
    """Return the schema itself, or its `anyOf`/`oneOf` options, resolved."""
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list) and options:
            return tuple(resolve(option, root) for option in cast("list[object]", options))
    return (schema,)


def _local(reference: str, root: Schema) -> Schema:
    if not reference.startswith("#"):
        return EMPTY
    here: object = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(here, Mapping):
            return EMPTY
        here = cast("Mapping[str, object]", here).get(key)
    return as_schema(here)

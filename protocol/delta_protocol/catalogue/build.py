"""The catalogue's connector, made of what the server listed, what is remembered of it, and the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from delta_protocol.catalogue import effects, names, objects, pins, schemas
from delta_protocol.catalogue.model import Annotations, Collection, Tool
from delta_protocol.catalogue.profiles import Profile
from delta_protocol.codecs import exact_json
from delta_protocol.config import ConnectorConfig
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json

MAX_DEPTH = 100
MAX_TOOLS = 5_000
MAX_DEFINITION = 128 << 10
"""A definition of more bytes than this is left out, and so are tools beyond `MAX_TOOLS`."""


class Listing(NamedTuple):
    """`faults` are about entries that cannot even be named, and about mappings that do not fit."""

    tools: tuple[Tool, ...]
    collections: tuple[Collection, ...]
    faults: tuple[str, ...]


def remembered(known: Sequence[Json], listed: Sequence[Json]) -> tuple[tuple[Json, ...], frozenset[str]]:
    """Return the definitions in first-seen order, newest text of each, and the names that are no longer listed.

    Both are upstream tool objects. An entry without a name is kept out (`build` never sees it); of two with one name
    the first counts.
    """
    order: dict[str, Json] = {name: text for text in known if (name := name_of(text))}
    fresh: dict[str, Json] = {}
    for text in listed[:MAX_TOOLS]:
        name = name_of(text) if len(text) <= MAX_DEFINITION else None
        if name and name not in fresh:
            fresh[name] = text
    order |= fresh
    return tuple(order.values()), frozenset(order) - set(fresh)


def unusable(listed: Sequence[Json]) -> tuple[str, ...]:
    """Say what is wrong with entries that have no name or one that was listed before (acceptance 18)."""
    faults: list[str] = []
    seen: set[str] = set()
    for number, text in enumerate(listed, 1):
        name = name_of(text)
        if name is None or len(text) > MAX_DEFINITION or number > MAX_TOOLS:
            why = "has no name or cannot be read" if name is None else "is too much"
            faults.append(f"entry {number} of the listing {why} and is left out")
        elif name in seen:
            faults.append(f'"{names.identifier(name)}" is listed twice; the first counts')
        else:
            seen.add(name)
    return tuple(faults)


def name_of(definition: Json) -> str | None:
    """Return the name in an upstream tool object, or None if it has none or cannot be read."""
    try:
        value = exact_json.decode(definition, what="tool definition")
    except Invalid:
        return None
    name = schemas.as_schema(value).get("name")
    return name if isinstance(name, str) and name and not _too_deep(value) else None


def _too_deep(value: object) -> bool:
    """Whether anything in it is nested beyond `MAX_DEPTH`; what walks schemas may then rely on it."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for part in level:
            if isinstance(part, dict):
                inner += cast("dict[str, object]", part).values()
            elif isinstance(part, list):
                inner += cast("list[object]", part)
        if not inner:
            return False
        level = inner
    return True


def build(
    definitions: Sequence[Json],
    config: ConnectorConfig,
    *,
    aliases: Mapping[str, str],
    gone: frozenset[str] = frozenset(),
    profile: Profile | None = None,
) -> Listing:
    """Return the connector's tools, in the given order, and its collections. `aliases`: name -> identifier."""
    tools = tuple(_tool(text, config, aliases, gone, profile) for text in definitions)
    collections, faults = objects.infer(tools, config, profile)
    return Listing(tools, collections, faults)


def _tool(
    text: Json,
    config: ConnectorConfig,
    aliases: Mapping[str, str],
    gone: frozenset[str],
    profile: Profile | None,
) -> Tool:
    definition = dict(schemas.as_schema(exact_json.decode(text, what="tool definition")))
    name = str(definition["name"])
    fault = fault_of(definition)
    schema = definition.get("inputSchema") if not fault else None
    decision = effects.decide(definition if not fault else {**definition, "inputSchema": {}}, config, profile)
    output = definition.get("outputSchema")
    description = definition.get("description")
    return Tool(
        name=name,
        alias=aliases[name],
        description=description if isinstance(description, str) else "",
        input_schema=exact_json.encode(schema if schema is not None else {"type": "object"}),
        effect=decision.effect,
        reason=decision.reason,
        digest=pins.digest(definition),
        definition=text,
        output_schema=exact_json.encode(output) if isinstance(output, dict) and output else None,
        annotations=_annotations(definition.get("annotations")),
        rules=decision.rules,
        mode=config.modes.get(name),
        fault=fault,
        gone=name in gone,
    )


def fault_of(definition: Mapping[str, Any]) -> str | None:
    """Return why the tool cannot be called as it is described, or None."""
    schema = definition.get("inputSchema")
    if schema is None:
        return "it has no inputSchema"
    if not isinstance(schema, dict):
        return "its inputSchema is no object"
    kind = cast("dict[str, Any]", schema).get("type", "object")
    return (
        None if kind == "object" else f'its inputSchema is of type {msgspec.json.encode(kind).decode()}, not "object"'
    )


def _annotations(value: object) -> Annotations:
    given = schemas.as_schema(value)

    def flag(name: str) -> bool | None:
        found = given.get(name)
        return found if isinstance(found, bool) else None

    title = given.get("title")
    return Annotations(
        title=title if isinstance(title, str) else None,
        read_only=flag("readOnlyHint"),
        destructive=flag("destructiveHint"),
        idempotent=flag("idempotentHint"),
        open_world=flag("openWorldHint"),
    )

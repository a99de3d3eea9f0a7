"""One line for a tool or a collection, at a chosen length."""

from __future__ import annotations

from delta_protocol.catalogue import notation, schemas
from delta_protocol.catalogue.model import Binding, Collection, Connector, Effect, Tool, find_tool
from delta_protocol.catalogue.notation import Level
from delta_protocol.codecs import exact_json
from delta_protocol.wire.message import Json

_MARKS = {Effect.READ: "", Effect.WRITE: "!", Effect.IRREVERSIBLE: "!!", Effect.OFF: " (off)"}


def tool_line(tool: Tool, level: Level) -> str:
    """Return ``name({a, b?: number})``, at `Level.NAME` the name alone; ``!`` marks a write, ``!!`` one that cannot be
    taken back."""
    if tool.gone:
        return f"{tool.alias}(gone)"
    mark = _MARKS[tool.effect]
    if tool.fault:
        return f"{tool.alias}{mark}(unusable)"
    if level is Level.NAME:
        return f"{tool.alias}{mark}"
    inside = notation.parameters(exact_json.decode(tool.input_schema), level)
    return f"{tool.alias}{mark}({inside})"


def line_of(name: str, input_schema: Json, level: Level = Level.TYPED) -> str:
    """Return ``name({a, b?: number})`` of a tool that is in no catalogue."""
    return f"{name}({notation.parameters(exact_json.decode(input_schema), level)})"


def collection_line(connector: Connector, collection: Collection, level: Level) -> str:
    """Return ``ticket: get(id) list({status?}) create({title}) delete(id); entity {id, status: open|closed,
    labels[]}``."""
    parts = [part for part in _operations(connector, collection, level) if part]
    shown = entity(connector, collection, level)
    return f"{collection.name}: {' '.join(parts)}; entity {shown}"


def entity(connector: Connector, collection: Collection, level: Level) -> str:
    """Return the entity's fields; an array field with tools of its own says which of push and remove they allow, one
    that
    cannot be set is `readonly`."""
    root, known = _entity_schema(connector, collection)
    if level is Level.NAME:
        return "{…}"
    fields = {name: known.get(name, schemas.EMPTY) for name in collection.fields or tuple(known)}
    text = notation.entity(fields, root, level)
    if collection.update is None or level < Level.EXACT:
        return text
    settable = ", ".join(collection.update.fields)
    own = "".join(
        f"; {element.field}: {'push' if element.add else ''}{' remove' if element.remove else ''}"
        for element in collection.elements
    )
    return f"{text}; settable: {settable}{own}"


def _operations(connector: Connector, collection: Collection, level: Level) -> list[str]:
    key = collection.key or "value"
    return [
        f"get({key})" if collection.get else "",
        _called(connector, "list", collection.list, level),
        _called(connector, "search", collection.search, level),
        _called(connector, "create", collection.create, level),
        f"delete({key})" if collection.delete else "",
    ]


def _called(connector: Connector, operation: str, binding: Binding | None, level: Level) -> str:
    tool = find_tool(connector, binding.tool) if binding else None
    if binding is None or tool is None:
        return ""
    if operation == "search" and "" in binding.fields:
        return "search(text)"
    schema = schemas.as_schema(exact_json.decode(tool.input_schema))
    if binding.content is not None:
        whole = schemas.properties(schema).get(binding.content, schemas.EMPTY)
        schema = {**(schemas.items(whole, schema) or whole)}
    if level is Level.NAME:
        return operation
    return f"{operation}({notation.parameters(schema, level)})"


def _entity_schema(connector: Connector, collection: Collection) -> tuple[schemas.Schema, dict[str, schemas.Schema]]:
    """The entity's schema as its reader shows it, the reader of lists serving where there is no other."""
    for binding in (collection.get, collection.list):
        tool = find_tool(connector, binding.tool) if binding else None
        if binding is None or tool is None or tool.output_schema is None:
            continue
        root = schemas.as_schema(exact_json.decode(tool.output_schema))
        here: schemas.Schema = root
        if list(schemas.properties(root)) == ["result"]:
            here = schemas.properties(root)["result"]
        for step in (*binding.result, *(() if binding is collection.get else (0,))):
            here = (
                schemas.properties(here, root).get(step, schemas.EMPTY)
                if isinstance(step, str)
                else schemas.items(here, root)
            )
        return root, schemas.properties(here, root)
    return schemas.EMPTY, {}


def bound_tools(collection: Collection) -> frozenset[str]:
    """Return the names of the tools that the collection's operations stand for; those that edit an entity in their own
    way are called by name and are not among them."""
    bindings = [
        collection.get,
        collection.list,
        collection.search,
        collection.create,
        collection.update,
        collection.delete,
    ]
    for element in collection.elements:
        bindings += [element.add, element.remove, element.update]
    return frozenset(binding.tool for binding in bindings if binding)


def quoted(name: str) -> str:
    """Return an upstream name as a string literal that shows every character, hidden ones escaped."""
    return "".join(c if c.isascii() and c.isprintable() else f"\\u{{{ord(c):x}}}" for c in f'"{name}"')

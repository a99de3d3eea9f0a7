"""What a program is told about the catalogue: only the connectors that its text names."""

from __future__ import annotations

import re

import msgspec

from delta_actors.sandbox.hints import INSTEAD
from delta_protocol.catalogue.model import (
    Binding,
    Catalogue,
    Collection,
    Connector,
    ConnectorState,
    Effect,
    Tool,
    find_tool,
)
from delta_protocol.nearest import nearest
from delta_protocol.wire.worker import CollectionView, NamespaceView, ReadBinding, ToolView


class _Schema(msgspec.Struct):
    required: tuple[str, ...] = ()
    properties: dict[str, msgspec.Raw] = {}


def namespaces(catalogue: Catalogue, code: str) -> tuple[NamespaceView, ...]:
    """Return the views of the connectors whose identifier occurs in `code`; no other can be reached from it."""
    views: list[NamespaceView] = []
    for connector in catalogue.connectors:
        alias = connector.namespace
        if alias in code and connector.state is not ConnectorState.GONE:
            views.append(_namespace(connector, alias))
    return tuple(views)


def unknown_name(catalogue: Catalogue, message: str) -> str:
    """Return a ReferenceError's message, completed by what to use instead or by the nearest connectors."""
    found = re.search(r"'?([A-Za-z_$][\w$]*)'? is not defined", message)
    aliases = [item.namespace for item in catalogue.connectors if item.state is not ConnectorState.GONE]
    if found is None:
        return message
    if found[1] in INSTEAD:
        return f"{message}; {INSTEAD[found[1]]}"
    near = nearest(found[1], aliases)
    said = f"nearest connectors: {', '.join(near)}" if near else f"connectors: {', '.join(aliases[:5])}"
    more = ", …" if not near and len(aliases) > 5 else ""
    return f'{message}; {said}{more}. Look them up: delta_read {{refs: [""]}}' if aliases else message


def _namespace(connector: Connector, alias: str) -> NamespaceView:
    tools = tuple(_tool(tool) for tool in connector.tools if not tool.gone)
    collections = tuple(_collection(connector, collection) for collection in connector.collections)
    detail = "" if connector.state is ConnectorState.READY else f"{connector.state}: {connector.detail}".rstrip(": ")
    return NamespaceView(connector.name, alias, tools, collections, detail)


def _tool(tool: Tool) -> ToolView:
    effect = (
        "off"
        if tool.effect is Effect.OFF
        else "ask"
        if tool.rules
        else "read"
        if tool.effect is Effect.READ
        else "write"
    )
    return ToolView(tool.name, tool.alias, effect, tool.fault or "", _schema(tool).required)


def _collection(connector: Connector, collection: Collection) -> CollectionView:
    def view(binding: Binding | None) -> ReadBinding | None:
        return None if binding is None else _binding(connector, binding)

    return CollectionView(
        collection.name,
        collection.noun,
        collection.key,
        collection.fields,
        get=view(collection.get),
        list=view(collection.list),
        search=view(collection.search),
        create=view(collection.create),
        update=view(collection.update),
        delete=view(collection.delete),
    )


def _binding(connector: Connector, binding: Binding) -> ReadBinding:
    tool = find_tool(connector, binding.tool)
    schema = _Schema() if tool is None else _schema(tool)
    words = [
        name for name in (*schema.required, *schema.properties) if name in ("query", "q", "search", "text", "pattern")
    ]
    first = binding.content or (schema.required[0] if len(schema.required) == 1 else words[0] if words else None)
    return ReadBinding(
        binding.tool,
        binding.key,
        binding.fields,
        binding.result,
        binding.many,
        binding.content,
        binding.cursor,
        first,
    )


def _schema(tool: Tool) -> _Schema:
    try:
        return msgspec.json.decode(tool.input_schema, type=_Schema)
    except (msgspec.MsgspecError, RecursionError):
        return _Schema()

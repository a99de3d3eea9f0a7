"""Small catalogues for tests: a ticket tracker, a knowledge graph with batches, a folder of files."""

from __future__ import annotations

import json
from typing import Any

from delta_protocol.catalogue.model import (
    Binding,
    Catalogue,
    Collection,
    Connector,
    ConnectorState,
    Effect,
    Elements,
    Mode,
    Tool,
)


def tool(name: str, effect: Effect, properties: dict[str, Any], required: tuple[str, ...] = ()) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    text = json.dumps(schema).encode()
    return Tool(name, name, "", text, effect, "test", f"digest of {name}", b"{}")


STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}
R, W = Effect.READ, Effect.WRITE

TICKET = Collection(
    name="ticket",
    noun="ticket",
    key="id",
    get=Binding("get_ticket", key="id"),
    list=Binding("list_tickets", fields={"status": "status"}, result=("tickets",)),
    create=Binding("create_ticket", fields={"title": "title", "status": "status", "labels": "labels"}),
    update=Binding(
        "update_ticket",
        key="id",
        fields={"title": "title", "status": "status", "labels": "labels", "assignee": "assignee", "big": "big"},
    ),
    delete=Binding("delete_ticket", key="id"),
    elements=(
        Elements(
            "comments",
            key="id",
            add=Binding("add_comment", key="id", fields={"body": "body"}),
            remove=Binding("delete_comment", key="id"),
            remove_key="comment_id",
        ),
    ),
    fields=("id", "title", "status", "labels", "assignee", "comments", "big"),
)


def tickets(mode: Mode = Mode.SAFE) -> Connector:
    fields = {
        "title": STRING,
        "status": STRING,
        "labels": STRINGS,
        "assignee": {"type": ["string", "null"]},
        "big": {"type": "integer"},
    }
    tools = (
        tool("get_ticket", R, {"id": STRING}, ("id",)),
        tool("list_tickets", R, {"status": STRING}),
        tool("create_ticket", W, {k: fields[k] for k in ("title", "status", "labels")}, ("title",)),
        tool("update_ticket", W, {"id": STRING, **fields}, ("id",)),
        tool("delete_ticket", W, {"id": STRING}, ("id",)),
        tool("add_comment", W, {"id": STRING, "body": STRING}, ("id", "body")),
        tool("delete_comment", W, {"id": STRING, "comment_id": {"type": "integer"}}, ("id", "comment_id")),
        tool("send_mail", W, {"to": STRING, "text": STRING}, ("to", "text")),
    )
    return Connector("tickets", ConnectorState.READY, mode, tools, (TICKET,))


def graph(mode: Mode = Mode.SAFE) -> Connector:
    entity = Collection(
        name="entity",
        noun="entity",
        key="name",
        get=Binding("open_nodes", key="names", many=True, result=("entities",)),
        create=Binding("create_entities", content="entities", many=True),
        delete=Binding("delete_entities", key="entityNames", many=True),
        fields=("name", "entityType", "observations"),
    )
    relation = Collection(
        name="relation",
        noun="relation",
        key="",
        list=Binding("read_graph", result=("relations",)),
        create=Binding("create_relations", content="relations", many=True),
        delete=Binding("delete_relations", content="relations", many=True),
    )
    objects = {"type": "array", "items": {"type": "object"}}
    tools = (
        tool("create_entities", W, {"entities": objects}, ("entities",)),
        tool("create_relations", W, {"relations": objects}, ("relations",)),
        tool("delete_entities", W, {"entityNames": STRINGS}, ("entityNames",)),
        tool("delete_relations", W, {"relations": objects}, ("relations",)),
        tool("open_nodes", R, {"names": STRINGS}, ("names",)),
        tool("read_graph", R, {}),
    )
    return Connector("graph", ConnectorState.READY, mode, tools, (entity, relation))


def files(mode: Mode = Mode.SAFE) -> Connector:
    file = Collection(
        name="file",
        noun="file",
        key="path",
        get=Binding("read_text_file", key="path"),
        create=Binding("write_file", key="path", fields={"content": "content"}),
        update=Binding("write_file", key="path", fields={"content": "content"}),
        edits=(Binding("edit_file", key="path"),),
        fields=("content",),
    )
    tools = (
        tool("read_text_file", R, {"path": STRING}, ("path",)),
        tool("write_file", W, {"path": STRING, "content": STRING}, ("path", "content")),
        tool("edit_file", W, {"path": STRING, "edits": {"type": "array"}}, ("path", "edits")),
    )
    return Connector("files", ConnectorState.READY, mode, tools, (file,))


def catalogue(*connectors: Connector) -> Catalogue:
    return Catalogue(7, connectors or (tickets(), graph(), files()))

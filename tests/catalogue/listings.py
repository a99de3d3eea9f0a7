"""Small listings, built as the registry builds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_protocol.catalogue import build, names
from delta_protocol.catalogue.model import Catalogue, Connector, ConnectorState, Mode, Tool, find_tool
from delta_protocol.catalogue.profiles import Profile
from delta_protocol.codecs import exact_json
from delta_protocol.config import ConnectorConfig

STRING = {"type": "string"}


def obj(*needed: str, **properties: Any) -> dict[str, Any]:
    """Return an object schema; `needed` are required, strings unless given in `properties`."""
    members = dict.fromkeys(needed, STRING) | properties
    return {"type": "object", "properties": members, "required": [*needed]}


def definition(name: str, given: Any = None, shown: Any = None, **more: Any) -> dict[str, Any]:
    """Return an upstream tool object."""
    result = {"name": name, "inputSchema": obj() if given is None else given, **more}
    return result if shown is None else {**result, "outputSchema": shown}


def connector(
    tools: Sequence[dict[str, Any]],
    config: ConnectorConfig | None = None,
    profile: Profile | None = None,
    name: str = "box",
) -> Connector:
    """Return the connector that lists `tools`."""
    texts = [exact_json.encode(tool) for tool in tools]
    aliases = names.aliases([str(tool["name"]) for tool in tools])
    listing = build.build(texts, config or ConnectorConfig(), aliases=aliases, profile=profile)
    alias = names.connector_alias(name)
    return Connector(
        name,
        ConnectorState.READY,
        Mode.ASK,
        listing.tools,
        listing.collections,
        alias=alias,
        detail="; ".join(listing.faults),
    )


def catalogue(*connectors: Connector) -> Catalogue:
    """Return a catalogue of them."""
    return Catalogue(1, connectors)


def one(tool: dict[str, Any], config: ConnectorConfig | None = None) -> Tool:
    """Return a single tool."""
    return connector([tool], config).tools[0]


def named(found: Connector, name: str) -> Tool:
    """Return a tool by name."""
    tool = find_tool(found, name)
    assert tool is not None
    return tool


def tickets() -> list[dict[str, Any]]:
    """Return the listing of a small tracker: one noun, one key, comments with tools of their own."""
    comment = obj("id", "body", "author")
    ticket = obj("id", "title", "body", status={"enum": ["open", "closed"]}, labels={"type": "array", "items": STRING})
    ticket["properties"]["comments"] = {"type": "array", "items": {"$ref": "#/$defs/Comment"}}
    ticket["$defs"] = {"Comment": comment}
    many = {"type": "object", "properties": {"tickets": {"type": "array", "items": {"$ref": "#/$defs/Ticket"}}}}
    many["$defs"] = {"Ticket": ticket, "Comment": comment}
    labels = {"type": "array", "items": STRING}
    reads = {"readOnlyHint": True}
    return [
        definition("get_ticket", obj("id"), ticket, annotations=reads),
        definition(
            "list_tickets", {**obj(), "properties": {"status": STRING, "page": STRING}}, many, annotations=reads
        ),
        definition("create_ticket", obj("title", body=STRING, labels=labels), ticket),
        definition("update_ticket", obj("id", title=STRING, status=STRING, labels=labels), ticket),
        definition("delete_ticket", obj("id")),
        definition("add_comment", obj("ticket_id", "body"), comment),
        definition("delete_comment", obj("ticket_id", "comment_id")),
    ]

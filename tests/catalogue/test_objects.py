"""Collections: found where certain, otherwise not (three-tools 5, plan-apply-undo 5.7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delta_actors.registry.shipped import shipped_profiles
from delta_protocol.catalogue import profiles
from delta_protocol.catalogue.model import Binding, Collection, Connector
from delta_protocol.config import CollectionConfig, ConnectorConfig, OperationConfig
from tests import shared_data
from tests.catalogue.listings import STRING, connector, definition, obj, tickets


def only(found: Connector) -> Collection:
    assert len(found.collections) == 1
    return found.collections[0]


def renamed(tools: list[dict[str, Any]], rename: Any) -> list[dict[str, Any]]:
    return [{**tool, "name": rename(tool["name"])} for tool in tools]


def without(tools: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [tool for tool in tools if tool["name"] not in names]


def changed(name: str, **parts: Any) -> list[dict[str, Any]]:
    return [{**tool, **parts} if tool["name"] == name else tool for tool in tickets()]


def test_a_family_over_one_noun_with_one_key_is_a_collection() -> None:
    found = only(connector(tickets()))
    assert (found.name, found.noun, found.key) == ("ticket", "ticket", "id")
    assert found.get == Binding("get_ticket", key="id")
    assert found.list == Binding("list_tickets", fields={"status": "status"}, result=("tickets",), cursor="page")
    assert found.create is not None
    assert found.create.fields == {"title": "title", "body": "body", "labels": "labels"}
    assert found.update == Binding(
        "update_ticket", key="id", fields={"title": "title", "status": "status", "labels": "labels"}
    )
    assert found.delete == Binding("delete_ticket", key="id")
    assert found.fields == ("id", "title", "body", "status", "labels", "comments")


def test_elements_have_tools_of_their_own() -> None:
    (comments,) = only(connector(tickets())).elements
    assert (comments.field, comments.key, comments.remove_key) == ("comments", "id", "comment_id")
    assert comments.add == Binding("add_comment", key="ticket_id", fields={"body": "body"})
    assert comments.remove == Binding("delete_comment", key="ticket_id")


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace("_", "-"),
        lambda name: name.replace("_", "."),
        lambda name: "".join(part.title() if index else part for index, part in enumerate(name.split("_"))),
        lambda name: f"tracker_{name}",
    ],
    ids=["kebab", "dotted", "camel", "prefixed"],
)
def test_every_spelling_and_a_shared_prefix(rename: Any) -> None:
    found = only(connector(renamed(tickets(), rename)))
    assert found.name == "ticket"
    assert found.delete is not None
    assert found.elements[0].remove is not None


def test_a_second_product_in_one_connector_keeps_its_prefix() -> None:
    tools = renamed(tickets(), lambda name: f"jira_{name}") + renamed(tickets(), lambda name: f"wiki_{name}")
    assert [found.name for found in connector(tools).collections] == ["jira_ticket", "wiki_ticket"]


def test_scalar_elements() -> None:
    labels = [definition("add_label", obj("id", "label")), definition("remove_label", obj("id", "label"))]
    found = only(connector([*tickets(), *labels]))
    (label,) = [element for element in found.elements if element.field == "labels"]
    assert (label.key, label.remove_key) == ("", "label")
    assert label.add == Binding("add_label", key="id", fields={"": "label"})
    assert label.remove == Binding("remove_label", key="id")


@pytest.mark.parametrize(
    "tools",
    [
        without(tickets(), "get_ticket"),
        changed("get_ticket", outputSchema=None),
        changed("get_ticket", inputSchema=obj("id", "project")),
        changed("get_ticket", inputSchema=obj()),
        changed("get_ticket", inputSchema=obj("whatever")),
        changed(
            "get_ticket", inputSchema={"type": "object", "properties": {"id": {"type": "array"}}, "required": ["id"]}
        ),
        changed("get_ticket", annotations={"readOnlyHint": False}),
        [*tickets(), definition("fetch_ticket", obj("id"))],
        [*tickets(), definition("ticket", obj("id"))],
    ],
    ids=["no get", "no output", "two keys", "no key", "odd key", "many keys", "get writes", "two gets", "name taken"],
)
def test_what_is_not_certain_is_not_guessed(tools: list[dict[str, Any]]) -> None:
    shown = [{key: value for key, value in tool.items() if value is not None} for tool in tools]
    assert connector(shown).collections == ()


@pytest.mark.parametrize(
    ("tools", "operation"),
    [
        (changed("update_ticket", inputSchema=obj("ticket", title=STRING)), "update"),
        (changed("update_ticket", inputSchema=obj("id", "title")), "update"),
        (changed("update_ticket", inputSchema=obj("id", when=STRING)), "update"),
        (changed("delete_ticket", inputSchema=obj("id", "reason")), "delete"),
        ([*tickets(), definition("remove_ticket", obj("id"))], "delete"),
        (changed("create_ticket", outputSchema=obj("ok")), "create"),
        (changed("create_ticket", inputSchema=obj("title", "template")), "create"),
        (changed("list_tickets", outputSchema=obj("text")), "list"),
        (changed("list_tickets", inputSchema=obj("project")), "list"),
    ],
)
def test_one_uncertain_operation_leaves_the_others(tools: list[dict[str, Any]], operation: str) -> None:
    found = only(connector(tools))
    assert getattr(found, operation) is None
    assert found.get is not None


def test_a_key_named_after_the_noun() -> None:
    shown = obj("id", "title")
    tools = [
        definition("get_note", obj("note_id"), shown),
        definition("update_note", obj("note_id", title=STRING)),
        definition("delete_note", obj("note_id")),
    ]
    found = only(connector(tools))
    assert (found.key, found.get) == ("id", Binding("get_note", key="note_id"))
    assert found.delete == Binding("delete_note", key="note_id")


def test_an_entity_inside_its_result() -> None:
    wrapped = {"type": "object", "properties": {"note": obj("id", "title"), "took": {"type": "number"}}}
    found = only(connector([definition("get_note", obj("id"), wrapped), definition("delete_note", obj("id"))]))
    assert found.get == Binding("get_note", key="id", result=("note",))


def test_the_lone_result_that_decoding_takes_away_is_no_path() -> None:
    shown = {"type": "object", "properties": {"result": {"type": "array", "items": obj("id")}}}
    tools = [*without(tickets(), "list_tickets"), definition("list_tickets", obj(), shown)]
    found = only(connector(tools))
    assert found.list is not None
    assert found.list.result == ()


def test_inference_can_be_forbidden_and_completed() -> None:
    assert connector(tickets(), ConnectorConfig(infer=False)).collections == ()
    mapping = CollectionConfig(delete=OperationConfig(tool="close_ticket", key="id"), version="rev")
    tools = [*without(tickets(), "delete_ticket"), definition("close_ticket", obj("id"))]
    found = only(connector(tools, ConnectorConfig(collections={"ticket": mapping})))
    assert found.delete == Binding("close_ticket", key="id")
    assert found.get is not None
    assert (found.version, found.source) == ("rev", "configured")


def test_a_mapping_that_does_not_fit_is_told_and_left_out() -> None:
    mapping = CollectionConfig(
        key="id",
        get=OperationConfig(tool="get_nothing", key="id"),
        delete=OperationConfig(tool="delete_ticket", key="number"),
    )
    found = connector(tickets(), ConnectorConfig(infer=False, collections={"ticket": mapping}))
    assert found.collections == ()
    assert 'no tool "get_nothing"' in found.detail
    assert "delete_ticket has no parameter number" in found.detail
    assert "`key` is missing" in connector(tickets(), ConnectorConfig(collections={"x": CollectionConfig()})).detail


@pytest.mark.shared_data
@pytest.mark.parametrize(("listing", "names"), [("memory", ["entity", "relation"]), ("filesystem", ["file"])])
def test_shipped_profiles_fit_the_servers_they_are_for(listing: str, names: list[str]) -> None:
    collected = json.loads(shared_data.data("data", "tools", f"{listing}.json").read_text())
    profile = profiles.matching(shipped_profiles(), collected["initialize"]["serverInfo"]["name"])
    assert profile is not None
    found = connector(collected["tools"], profile=profile)
    assert [collection.name for collection in found.collections] == names
    assert found.detail == ""


@pytest.mark.shared_data
def test_nothing_is_guessed_in_the_collected_listings() -> None:
    for path in shared_data.listings():
        for collection in connector(json.loads(path.read_text())["tools"]).collections:
            assert collection.get is not None, (path.stem, collection.name)
            assert collection.key in collection.fields

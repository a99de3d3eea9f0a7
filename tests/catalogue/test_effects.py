"""Read or write, in the order of evidence (plan-apply-undo 5.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delta_protocol.catalogue import effects
from delta_protocol.catalogue.model import Effect
from delta_protocol.catalogue.profiles import Profile, ToolProfile
from delta_protocol.config import ConnectorConfig, EffectRule
from tests import shared_data
from tests.catalogue.listings import STRING, connector, definition, named, obj, one

READ, WRITE = Effect.READ, Effect.WRITE


@pytest.mark.parametrize(
    ("tool", "effect"),
    [
        (definition("get_ticket"), READ),
        (definition("searchTickets"), READ),
        (definition("list-projects"), READ),
        (definition("frobnicate"), WRITE),
        (definition("get_or_create_ticket"), WRITE),
        (definition("read_query", obj("query")), READ),
        (definition("query", obj(sql=STRING)), WRITE),
        (definition("describe_image", obj("prompt")), WRITE),
        (definition("frobnicate", annotations={"readOnlyHint": True}), READ),
        (definition("get_ticket", annotations={"readOnlyHint": False}), WRITE),
        (definition("delete_all", annotations={"readOnlyHint": True}), WRITE),
        (definition("jira_get", obj("path")), READ),
        (definition("jira_delete", obj("path")), WRITE),
        (definition("get_path", obj("path"), annotations={"readOnlyHint": "yes"}), READ),
    ],
)
def test_what_a_tool_counts_as(tool: dict[str, Any], effect: Effect) -> None:
    assert one(tool).effect is effect


def test_a_lie_is_called_suspect() -> None:  # acceptance 73
    assert "suspect" in one(definition("delete_all", annotations={"readOnlyHint": True})).reason


def test_an_untrusted_connectors_hints_do_not_count() -> None:
    config = ConnectorConfig(trust="annotations-off")
    assert one(definition("frobnicate", annotations={"readOnlyHint": True}), config).effect is WRITE
    assert one(definition("get_ticket", annotations={"readOnlyHint": False}), config).effect is READ
    dry = definition("frobnicate", {**obj(), "properties": {"dry_run": {"type": "boolean"}}})
    assert effects.effect_of(one(dry, config), b'{"dry_run":true}') is WRITE


def test_the_users_word_comes_first() -> None:
    lying = definition("delete_all", annotations={"readOnlyHint": False})
    assert one(lying, ConnectorConfig(effects={"delete_all": Effect.READ})).effect is READ
    assert one(lying, ConnectorConfig(effects={"delete_all": Effect.OFF})).effect is Effect.OFF


def test_configured_rules_by_argument() -> None:
    rule = EffectRule(when={"sql": r"(?i)^\s*(select|explain)\b", "mode": "^safe$"}, then=Effect.READ)
    tool = one(definition("query", obj("sql", mode=STRING)), ConnectorConfig(effects={"query": [rule]}))
    assert effects.effect_of(tool, b'{"sql":"SELECT 1","mode":"safe"}') is READ
    assert effects.effect_of(tool, b'{"sql":"SELECT 1"}') is WRITE
    assert effects.effect_of(tool, b'{"sql":"delete from t","mode":"safe"}') is WRITE
    assert effects.effect_of(tool, b"{}") is WRITE


@pytest.mark.parametrize(
    ("schema", "arguments", "effect"),
    [
        ({"method": {"enum": ["GET", "POST"]}}, b'{"method":"GET"}', READ),
        ({"method": {"enum": ["GET", "POST"]}}, b'{"method":"POST"}', WRITE),
        ({"action": {"enum": ["list", "add", "remove"]}}, b'{"action":"list"}', READ),
        ({"action": {"enum": ["list", "add", "remove"]}}, b'{"action":"listen"}', WRITE),
        ({"action": {"enum": ["list", "add", "remove"]}}, b"{}", WRITE),
        ({"dry_run": {"type": "boolean"}}, b'{"dry_run":true}', READ),
        ({"dry_run": {"type": "boolean"}}, b'{"dry_run":false}', WRITE),
        ({"dry_run": {"type": "boolean"}}, b'{"dry_run":"true"}', READ),
    ],
)
def test_rules_that_the_parameters_show(schema: dict[str, Any], arguments: bytes, effect: Effect) -> None:
    tool = one(definition("manage_things", {"type": "object", "properties": schema}))
    assert effects.effect_of(tool, arguments) is effect


def test_a_reading_name_does_not_cover_a_choice_that_writes() -> None:
    schema = {"type": "object", "properties": {"action": {"enum": ["get", "delete"]}}}
    tool = one(definition("get_things", schema))
    assert tool.effect is WRITE
    assert effects.effect_of(tool, b'{"action":"get"}') is READ


def test_a_profile_counts_only_for_the_tool_it_was_written_for() -> None:
    profile = Profile(server="box", about="", tools={"frobnicate": ToolProfile(("id",), Effect.READ)})
    same = connector([definition("frobnicate", obj("id"))], profile=profile)
    other = connector([definition("frobnicate", obj("id", "force"))], profile=profile)
    assert named(same, "frobnicate").effect is READ
    assert named(other, "frobnicate").effect is WRITE


@pytest.mark.shared_data
def test_no_tool_of_the_collected_listings_that_says_it_writes_counts_as_read() -> None:
    for path in shared_data.listings():
        for tool in json.loads(path.read_text())["tools"]:
            decision = effects.decide(tool, ConnectorConfig())
            if tool.get("annotations", {}).get("readOnlyHint") is False:
                assert decision.effect is WRITE, (path.stem, tool["name"])
            if decision.effect is READ:
                assert "delete" not in tool["name"], (path.stem, tool["name"])

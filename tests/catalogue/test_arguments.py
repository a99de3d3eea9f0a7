"""Arguments are checked before anything is sent."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from delta_protocol.catalogue import arguments
from delta_protocol.errors import Invalid
from tests import shared_data
from tests.catalogue.listings import STRING, definition, obj, one

UPDATE = one(definition("update_ticket", obj("id", status={"enum": ["open", "closed"]}, labels={"type": "array"})))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"{}", "missing: id"),
        (b'{"id":"T-1","lables":[]}', "unknown: lables (did you mean labels?)"),
        (b'{"id":1}', 'wrong: id: 1 is not of type "string"'),
        (b'{"id":"T-1","status":"done"}', 'status: "done" is not one of "open" or "closed"'),
        (b'{"lables":[]}', "missing: id · unknown: lables"),
        (b'"T-1"', "arguments are one object, not string"),
        (b'[{"id":"T-1"}]', "arguments are one object, not array"),
    ],
)
def test_what_is_wrong_is_said_in_three_lines_with_the_signature(given: bytes, words: str) -> None:  # acceptance 12
    with pytest.raises(Invalid) as caught:
        arguments.check(UPDATE, given)
    assert words in caught.value.message
    lines = caught.value.message.splitlines()
    assert len(lines) <= 3
    assert lines[-1] == "update_ticket!({id, status?: open|closed, labels?: []})".replace(": []", "[]")


def test_arguments_that_fit_go_out_as_they_are() -> None:
    text = b'{ "id": "T-1", "labels": [1917043659912705296] }'
    assert arguments.check(UPDATE, text) == text


def test_a_json_string_is_parsed_where_only_a_structure_fits() -> None:  # acceptance 24
    assert arguments.check(UPDATE, b'{"id":"[1]","labels":"[\\"late\\", 1917043659912705296]"}') == (
        b'{"id":"[1]","labels":["late",1917043659912705296]}'
    )
    with pytest.raises(Invalid):
        arguments.check(UPDATE, b'{"id":"x","labels":"{}"}')


def test_a_schema_that_says_there_may_be_more_is_believed() -> None:
    open_schema = {**obj("id"), "additionalProperties": True}
    assert arguments.check(one(definition("set_x", open_schema)), b'{"id":"x","extra":1}')
    assert arguments.check(one(definition("set_x", {"type": "object"})), b'{"extra":1}')


def test_values_that_come_later_are_not_looked_at() -> None:
    filled_later = b'{"id":null,"status":"open"}'
    assert arguments.check(UPDATE, filled_later, holes=[("id",)]) == filled_later
    with pytest.raises(Invalid, match="status"):
        arguments.check(UPDATE, b'{"id":null,"status":"no"}', holes=[("id",)])


def test_a_remote_reference_is_an_error_and_no_request() -> None:  # acceptance 16
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        schema = {"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{port}/schema"}}}
        with pytest.raises(Invalid, match="not fetched"):
            arguments.check(one(definition("set_x", schema)), b'{"a":1}')
        with pytest.raises(TimeoutError):
            listener.accept()


def test_recursive_references_are_followed() -> None:  # acceptance 16
    tree = {"type": "object", "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
    schema = {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}, "$defs": {"t": tree}}
    tool = one(definition("set_x", schema))
    assert arguments.check(tool, b'{"t":{"of":[{"of":[]}]}}')
    with pytest.raises(Invalid, match=r"t\.of\[0\]\.of"):
        arguments.check(tool, b'{"t":{"of":[{"of":1}]}}')


DRAFTS: list[tuple[dict[str, Any], bytes, bool]] = [
    ({"type": "integer"}, b"1", True),
    ({"type": "integer"}, b"1.5", False),
    ({"type": "integer"}, b"1917043659912705296123", True),
    ({"type": "number", "exclusiveMinimum": 0}, b"0", False),
    ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, b"0", False),
    ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, b"1", True),
    ({"type": ["string", "null"]}, b"null", True),
    ({"type": "string", "nullable": True}, b'"x"', True),
    ({"const": 3}, b"3", True),
    ({"const": 3}, b"4", False),
    ({"enum": ["a", None]}, b"null", True),
    (True, b"7", True),  # type: ignore[list-item]
    (False, b"7", False),  # type: ignore[list-item]
    ({"items": [{"type": "string"}], "$schema": "http://json-schema.org/draft-07/schema#"}, b'["a", 1]', True),
    ({"type": "array", "prefixItems": [{"type": "string"}]}, b"[1]", False),
    ({"oneOf": [{"type": "string"}, {"type": "number"}]}, b"1", True),
    ({"allOf": [{"type": "string"}, {"minLength": 2}]}, b'"x"', False),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, b"null", True),
    ({"type": "string", "x-unknown": {"a": 1}, "example": 3}, b'"x"', True),
    ({"type": "string", "format": "date-time"}, b'"not a date"', True),
    ({"type": "string", "pattern": "^a+$"}, b'"b"', False),
    ({"type": "object", "additionalProperties": False}, b'{"a":1}', False),
    ({"type": "object", "patternProperties": {"^x": {"type": "number"}}}, b'{"x":"1"}', False),
]


@pytest.mark.parametrize(("schema", "value", "fits"), DRAFTS)
def test_drafts_as_they_are_mixed_in_the_field(schema: Any, value: bytes, fits: bool) -> None:  # acceptance 21
    tool = one(definition("set_x", {"type": "object", "properties": {"v": schema}}))
    given = b'{"v":' + value + b"}"
    if fits:
        assert json.loads(arguments.check(tool, given)) == json.loads(given)
    else:
        with pytest.raises(Invalid):
            arguments.check(tool, given)


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf"])
def test_top_level_combinators_are_checked(keyword: str) -> None:  # acceptance 15
    schema = {"type": "object", "properties": {"a": STRING, "b": STRING}, keyword: [{"required": ["a"]}]}
    tool = one(definition("set_x", schema))
    assert arguments.check(tool, b'{"a":"x"}')
    with pytest.raises(Invalid):
        arguments.check(tool, b'{"b":"x"}')


def test_keys_of_any_kind_may_be_given() -> None:  # acceptance 20
    tool = one(definition("set_x", {"type": "object", "properties": {"$match it": {"type": "object"}}}))
    assert arguments.check(tool, b'{"$match it":{"a.b":1}}')


def test_a_schema_no_dialect_accepts_is_said_to_be_unusable() -> None:
    with pytest.raises(Invalid, match="not usable"):
        arguments.check(one(definition("set_x", {"type": "object", "properties": {"a": {"type": 7}}})), b"{}")


@pytest.mark.shared_data
def test_every_collected_schema_compiles() -> None:
    from delta_protocol.catalogue import validators

    for path in shared_data.listings():
        for tool in json.loads(path.read_text())["tools"]:
            validators.compiled(json.dumps(tool["inputSchema"]).encode())

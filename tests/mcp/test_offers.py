"""URI templates, cursors, levels and mirrored arguments as data."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.mcp.errors import HEADER_MISMATCH, RpcError
from delta_protocol.mcp.http_ladder import encode_header_value
from delta_protocol.mcp.levels import reaches, read_level
from delta_protocol.mcp.mirrors import BadMirror, check_mirrors, find_mirrors
from delta_protocol.mcp.pages import page
from delta_protocol.mcp.uri_templates import BadTemplate, UriTemplate


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("test://{id}/data", "test://7/data", {"id": "7"}),
        ("test://{id}/data", "test://a%20b/data", {"id": "a b"}),
        ("test://{id}/data", "test://7/other", None),
        ("test://{id}/data", "test://a/b/data", None),
        ("test://{id}/data", "test://a%2Fb/data", None),
        ("test://{id}/data", "test://%2e%2e/data", None),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("file:///{+path}", "file:///a/../../etc/passwd", None),
        ("file:///{+path}", "file:///a/%2e%2e/x", None),
        ("file:///{+path}", "file:///a%00b", None),
        ("x:{a,b}", "x:1,2", {"a": "1", "b": "2"}),
        ("x:y{/a,b}", "x:y/1/2", {"a": "1", "b": "2"}),
        ("x:y{.a}", "x:y.txt", {"a": "txt"}),
        ("x:y{;a,b}", "x:y;a=1;b", {"a": "1", "b": ""}),
        ("x:y{#a}", "x:y#part", {"a": "part"}),
        ("x:y{?q,n}", "x:y?n=2&q=a%26b&other=1", {"q": "a&b", "n": "2"}),
        ("x:y{?q}", "x:y", {}),
        ("x:(y){a}", "x:(y)1", {"a": "1"}),
        ("x:{a}", "x:%ff", None),
    ],
)
def test_a_uri_gives_back_what_its_template_took(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize("template", ["x:{a}{a}", "x:{a*}", "x:{a:3}", "x:{", "x:{}", "x:{?q}/more", "x:{?q}{a}"])
def test_a_template_that_cannot_be_matched_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        UriTemplate(template)


@given(st.text(min_size=1))
def test_expanded_values_come_back(value: str) -> None:
    try:
        uri = f"x:/{quote(value, safe='')}/end"
    except UnicodeEncodeError:
        return
    found = UriTemplate("x:/{a}/end").match(uri)
    refused = any(sign in value for sign in "/\\\0") or value == ".."
    assert found == (None if refused else {"a": value})


@given(st.text())
def test_no_uri_makes_a_template_fail(uri: str) -> None:
    for template in ("x:{a}", "{+a}", "x:y{?q}", "{a,b}{/c}{;d}{#e}"):
        UriTemplate(template).match(uri)


@given(st.lists(st.integers(0, 99).map(lambda number: json.dumps(number).encode()), unique=True), st.integers(1, 9))
def test_pages_join_to_the_list(items: list[bytes], size: int) -> None:
    joined: list[bytes] = []
    cursor = None
    while True:
        shown, cursor = page("tools/list", items, cursor, size)
        joined += shown
        if cursor is None:
            break
    assert joined == items


def test_a_cursor_counts_for_its_own_list_alone() -> None:
    items = [b"1", b"2", b"3"]
    _, cursor = page("tools/list", items, None, 2)
    for method, known in (("prompts/list", items), ("tools/list", [b"8", b"9"])):
        with pytest.raises(RpcError):
            page(method, known, cursor, 2)


@given(st.text())
def test_no_cursor_makes_paging_fail_otherwise(cursor: str) -> None:
    with pytest.raises(RpcError):
        page("tools/list", [b"1"], cursor, 1)


def test_levels_are_ordered() -> None:
    assert reaches("error", "warning")
    assert not reaches("info", "notice")
    for value in ("loud", 3, None, ["info"]):
        with pytest.raises(RpcError):
            read_level(value)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "inner": {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry-Run"}}},
    },
}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": None}, {}),
        ({"region": "eu"}, {"region": "eu"}),
        ({"region": "zürich"}, {"region": encode_header_value("zürich")}),
        ({"region": "=?base64?eA==?="}, {"region": encode_header_value("=?base64?eA==?=")}),
        ({"count": 42}, {"count": "42.0"}),
        ({"count": 42.0}, {"count": "42"}),
        ({"inner": {"dry": True}}, {"dry-run": "true"}),
    ],
)
def test_headers_that_repeat_the_arguments_pass(arguments: dict[str, Any], headers: dict[str, str]) -> None:
    _check(arguments, headers)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"region": "EU"}),
        ({"region": "eu"}, {"region": "=?base64?ZXU?="}),
        ({}, {"region": "eu"}),
        ({"count": 42}, {"count": "43"}),
        ({"count": 42}, {"count": "many"}),
        ({"inner": {"dry": True}}, {"dry-run": "True"}),
        ({"region": 7}, {"region": "7"}),
    ],
)
def test_headers_that_say_something_else_are_refused(arguments: dict[str, Any], headers: dict[str, str]) -> None:
    with pytest.raises(RpcError) as caught:
        _check(arguments, headers)
    assert caught.value.code == HEADER_MISMATCH


def _check(arguments: dict[str, Any], headers: dict[str, str]) -> None:
    mirrors = find_mirrors(json.dumps(SCHEMA).encode())
    given = {f"mcp-param-{name}": [value] for name, value in headers.items()}
    check_mirrors(mirrors, json.dumps(arguments).encode(), given)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "no token"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "a\r\nb"}}},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}},
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
        {"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}},
        {"type": "string", "x-mcp-header": "A"},
        {
            "properties": {
                "a": {"type": "string", "x-mcp-header": "A"},
                "b": {"type": "string", "x-mcp-header": "a"},
            }
        },
    ],
)
def test_annotations_that_clients_refuse_are_found(schema: dict[str, Any]) -> None:
    with pytest.raises(BadMirror):
        find_mirrors(json.dumps(schema).encode())

"""Arguments are checked before a handler runs, tools before they are registered (acceptance 12, 16, 21, 24)."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from delta_actors.mcp import DeltaServer
from delta_actors.mcp.functions import FunctionTools, ToolOptions, function_tool
from delta_protocol.errors import Invalid
from delta_protocol.mcp.schema_hash import schema_hash
from tests.mcp.samples import modern, served

FILTERED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "filters": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
    },
    "required": ["query"],
    "additionalProperties": False,
}


class Seen:
    """What the handlers were given."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


def server_of(seen: Seen) -> DeltaServer:
    server = DeltaServer("s", "1")

    @server.tool(input_schema=json.dumps(FILTERED).encode())
    def search(query: str, limit: int = 10, filters: dict[str, Any] | None = None) -> str:
        seen.calls.append((query, limit, filters))
        return "found"

    @server.tool()
    def label(issue: int, labels: list[str]) -> str:
        seen.calls.append((issue, labels))
        return "labelled"

    return server


async def answer(name: str, arguments: Any, seen: Seen | None = None) -> dict[str, Any]:
    async with served(server_of(seen or Seen())) as peer:
        result: dict[str, Any] = (await peer.ask(modern(1, "tools/call", name=name, arguments=arguments)))["result"]
        return result


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search", {}, "missing: query"),
        ("search", {"query": "x", "limt": 3}, "unknown: limt (did you mean limit?)"),
        ("search", {"query": "x", "limit": "many"}, "wrong: limit: "),
        ("search", {"query": "x", "filters": {"tags": ["a", 7]}}, "filters.tags[1]: "),
        ("label", {}, "missing: issue, labels"),
        ("label", {"issue": 1, "lables": []}, "unknown: lables (did you mean labels?)"),
        ("label", {"issue": 1, "labels": ["a", 7]}, "labels[1]: "),
    ],
)
async def test_a_wrong_argument_is_named_with_the_signature_in_three_lines(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    """acceptance 12."""
    seen = Seen()
    result = await answer(name, arguments, seen)
    text = result["content"][0]["text"]
    assert result["isError"] is True
    assert said in text
    assert len(text.splitlines()) == 3
    assert text.splitlines()[2].startswith(f"{name}({{")
    assert seen.calls == []


async def test_an_array_or_object_that_comes_as_json_text_is_parsed_once_and_told() -> None:
    """acceptance 24."""
    seen = Seen()
    result = await answer("label", {"issue": 1, "labels": '["a","b"]'}, seen)
    assert seen.calls == [(1, ["a", "b"])]
    assert [block["text"] for block in result["content"]] == [
        "labelled",
        "Note: labels came as JSON text and was parsed; give the value itself.",
    ]
    await answer("search", {"query": "[1]", "filters": '{"tags":[]}'}, seen)
    assert seen.calls[1] == ("[1]", 10, {"tags": []})
    assert (await answer("label", {"issue": 1, "labels": '"[\\"a\\"]"'}))["isError"] is True


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}, ["a"], [1]),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]}, ["a"], [1]),
        ({"items": [{"type": "string"}]}, ["a"], [1]),
        ({"type": ["string", "null"], "unheardOf": 1}, None, 1),
        ({"const": "a"}, "a", "b"),
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1),
    ],
)
async def test_a_schema_is_read_in_the_draft_it_is_written_in(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """acceptance 21."""
    server = DeltaServer("s", "1")
    dialect = {"$schema": schema.pop("$schema")} if "$schema" in schema else {}
    whole = dialect | {"type": "object", "properties": {"value": schema}, "required": ["value"]}

    @server.tool(input_schema=json.dumps(whole).encode())
    def take(value: Any) -> str:
        return "taken"

    async with served(server) as peer:
        taken = await peer.ask(modern(1, "tools/call", name="take", arguments={"value": good}))
        assert "isError" not in taken["result"]
        refused = await peer.ask(modern(2, "tools/call", name="take", arguments={"value": bad}))
        assert refused["result"]["isError"] is True


def test_a_reference_to_elsewhere_is_refused_and_never_fetched() -> None:
    """acceptance 16."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        schema = {"type": "object", "properties": {"x": {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/s"}}}
        with pytest.raises(Invalid, match="usable"):
            function_tool(_nothing, ToolOptions(input_schema=json.dumps(schema).encode()))
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    ("options", "raised", "said"),
    [
        (ToolOptions(name="a b"), ValueError, "1 to 128"),
        (ToolOptions(name="x" * 129), ValueError, "1 to 128"),
        (ToolOptions(input_schema=b'{"type":"array"}'), Invalid, "type object"),
        (ToolOptions(input_schema=b"null"), Invalid, "usable"),
        (ToolOptions(input_schema=b'{"type":"nothing"}'), Invalid, "usable"),
        (ToolOptions(input_schema=b"{"), Invalid, "JSON"),
        (ToolOptions(summary="x" * 61), ValueError, "60 chars"),
        (ToolOptions(summary="two\nlines"), ValueError, "60 chars"),
        (ToolOptions(summary="🙂" * 60), None, ""),
    ],
)
def test_a_malformed_tool_is_refused_when_it_is_registered(
    options: ToolOptions, raised: type[Exception] | None, said: str
) -> None:
    """CS-02-06."""
    if raised is None:
        function_tool(_nothing, options)
        return
    with pytest.raises(raised, match=said):
        function_tool(_nothing, options)


def test_only_a_short_first_line_stands_for_a_summary() -> None:
    def summary(options: ToolOptions) -> str | None:
        return function_tool(_nothing, options).summary

    assert summary(ToolOptions(summary="Short", description="Long")) == "Short"
    assert summary(ToolOptions(description="First line.\n\nMore.")) == "First line."
    assert summary(ToolOptions(description="x" * 61)) is None
    with pytest.raises(ValueError, match="60 chars"):
        FunctionTools(summaries=True).add(function_tool(_nothing, ToolOptions(description="x" * 61)))
    with pytest.raises(ValueError, match="by itself"):
        FunctionTools(reserved=("taken",)).add(function_tool(_nothing, ToolOptions(name="taken")))


def test_equal_schemas_hash_equally_whatever_the_order_of_their_keys() -> None:
    """CS-02-07."""
    assert schema_hash(b'{"type":"object"}') == "9abfc9b4"
    one = {"type": "object", "properties": {"é🙂": {"type": "string"}, "a": {"type": "number"}}}
    other = {"properties": {"a": {"type": "number"}, "é🙂": {"type": "string"}}, "type": "object"}
    assert schema_hash(json.dumps(one).encode()) == schema_hash(json.dumps(other, ensure_ascii=False).encode())
    other["properties"]["a"]["type"] = "string"  # type: ignore[index]
    assert schema_hash(json.dumps(one).encode()) != schema_hash(json.dumps(other).encode())


def _nothing() -> None: ...

"""The one decoded form of what a tool answered, and pins."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from delta_protocol.catalogue import pins, results
from tests.catalogue.listings import definition, obj


def text(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": each} for each in texts]


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"structuredContent": {"a": 1}, "content": text("other")}, {"a": 1}),
        ({"structuredContent": {"result": [1]}, "content": []}, [1]),
        ({"structuredContent": {"result": 1, "more": 2}}, {"result": 1, "more": 2}),
        ({"structuredContent": None, "content": text("x")}, None),
        ({"content": text('{"id": 1917043659912705296}')}, {"id": 1917043659912705296}),
        ({"content": text(" [1, 2]")}, [1, 2]),
        ({"content": text("{not json")}, "{not json"),
        ({"content": text("42")}, "42"),
        ({"content": text("a", "b")}, "a\nb"),
        ({"content": text('{"a":1}', '{"b":2}')}, '{"a":1}\n{"b":2}'),
        ({"content": []}, ""),
        ({}, ""),
    ],
)
def test_decoding(result: Any, value: Any) -> None:
    assert json.loads(results.decoded(json.dumps(result).encode())) == value


def test_blocks_that_are_no_text_become_handles() -> None:  # acceptance 9
    data = bytes(range(256))
    digest = hashlib.sha256(data).hexdigest()
    blocks = [
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode()},
        {
            "type": "resource",
            "resource": {"uri": "file:///a", "blob": base64.urlsafe_b64encode(data).decode().rstrip("=")},
        },
        {"type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "audio", "mimeType": "audio/wav", "data": "***"},
    ]
    value = json.loads(results.decoded(json.dumps({"content": [*text("see"), *blocks]}).encode()))
    assert value["text"] == "see"
    assert value["blocks"] == [
        {"type": "image", "mimeType": "image/png", "bytes": 256, "sha256": digest},
        {"type": "resource", "uri": "file:///a", "bytes": 256, "sha256": digest},
        {"type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "audio", "mimeType": "audio/wav", "fault": "not base64"},
    ]


def test_the_tools_own_words() -> None:
    assert results.text(json.dumps({"content": text("no", "go"), "isError": True}).encode()) == "no\ngo"
    assert results.text(b'{"structuredContent":{"why":"full"},"isError":true}') == '{"why":"full"}'


@pytest.mark.parametrize(
    "change",
    [
        {"description": "other"},
        {"title": "other"},
        {"inputSchema": obj("id")},
        {"outputSchema": obj("id")},
        {"annotations": {"readOnlyHint": True}},
    ],
)
def test_a_pin_changes_with_everything_that_tells_what_the_tool_does(change: dict[str, Any]) -> None:  # acceptance 71
    tool = definition("set_x", description="one")
    assert pins.digest({**tool, **change}) != pins.digest(tool)


def test_a_pin_is_the_same_over_key_order_and_icons() -> None:
    tool = definition("set_x", description="one")
    assert pins.digest(dict(reversed(tool.items())) | {"icons": [], "_meta": {}}) == pins.digest(tool)

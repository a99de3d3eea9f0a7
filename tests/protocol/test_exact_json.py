"""What the one reader of JSON accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol import jsonrpc
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid

DEEP = exact_json.MAX_DEPTH


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    exact_json.decode(nested(DEEP, opening, closing))
    for depth in (DEEP + 1, 100_000):
        with pytest.raises(Invalid, match="deeper than 256"):
            exact_json.decode(nested(depth, opening, closing))


def test_brackets_side_by_side_or_in_texts_are_not_nesting() -> None:
    wide: list[Any] = [[]] * 1000
    texts = ["[" * 1000, '"[' * 500, "\\" * 3 + "[" * 400, '\\"{']
    for value in (wide, texts, {text: text for text in texts}):
        assert exact_json.decode(json.dumps(value)) == value
        assert exact_json.decode(json.dumps(value).encode()) == value


@given(st.recursive(st.text(alphabet='[]{}"\\a') | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_no_text_changes_what_counts_as_nesting(value: Any) -> None:
    beside: list[Any] = [[]] * DEEP
    padded = [value, *beside]
    assert exact_json.decode(json.dumps(padded)) == padded


def test_of_members_with_the_same_name_the_last_counts() -> None:
    assert exact_json.decode(b'{"a": 1, "a": 2}') == {"a": 2}


def test_a_message_that_is_nested_too_deep_is_refused_with_its_id() -> None:
    text = b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"a": ' + nested(DEEP) + b"}}"
    with pytest.raises(jsonrpc.Malformed, match="deeper than 256") as caught:
        jsonrpc.parse(text)
    assert caught.value.id == 7

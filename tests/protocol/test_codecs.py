"""Messages in compact JSON and CBOR come back as they were; anything else is refused (CS-05)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.codecs import cbor, compact, exact_json
from delta_protocol.codecs.negotiate import CONTENT_TYPES, Format, choose, of_accept, of_content_type
from delta_protocol.errors import Invalid

KEYS = st.one_of(
    st.sampled_from([*compact.SHORT, *compact.LONG, *("~" + short for short in compact.LONG), "~~n"]),
    st.text(max_size=5),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def message(params: Any) -> bytes:
    """Return a request with these parameters."""
    return exact_json.encode({"jsonrpc": "2.0", "id": 2**63 + 1, "method": "tools/call", "params": params})


@pytest.mark.parametrize("codec", [compact, cbor])
@given(params=VALUES)
def test_a_message_comes_back_as_it_was(codec: Any, params: Any) -> None:
    text = message(params)
    assert codec.decode(codec.encode(text)) == text


@pytest.mark.parametrize("codec", [compact, cbor])
@given(body=st.binary(max_size=200))
def test_random_bytes_are_refused_and_raise_nothing_else(codec: Any, body: bytes) -> None:
    with pytest.raises(Invalid):
        codec.decode(body)


@pytest.mark.parametrize(
    ("plain", "short"),
    [({"n": 5}, {"~n": 5}), ({"name": "a", "n": 1}, {"n": "a", "~n": 1}), ({"~n": 1}, {"~~n": 1})],
)
def test_literal_short_keys_are_escaped(plain: dict[str, Any], short: dict[str, Any]) -> None:
    assert json.loads(compact.encode(message(plain)))["p"] == short


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"j":"2.0","i":1,"method":"ping"}',
        b'{"j":"2.0","i":1,"m":"x","p":{"n":1,"name":2}}',
        b'[{"j":"2.0","i":1,"m":"ping"}]',
        b'{"j":"2.0","i":1,"m":"x","p":' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
def test_what_is_no_compact_message_is_refused_and_not_rewritten(body: bytes) -> None:
    with pytest.raises(Invalid):
        compact.decode(body)


@pytest.mark.parametrize(
    "params",
    [
        *("9f01ff", "bf616101ff", "d81c80", "c11a00000000", "c249010000000000000000", "3bffffffffffffffff", "f7", "e0"),
        *("4161", "a10102", "a2616101616102", "81" * 300 + "01", "9b7fffffffffffffff", "61ff", "d9d9f701", "f97e00"),
    ],
)
def test_cbor_that_json_cannot_say_is_refused(params: str) -> None:
    good = b"\xa3\x67jsonrpc\x632.0\x66method\x61x\x66params"
    with pytest.raises(Invalid):
        cbor.decode(good + bytes.fromhex(params))
    assert cbor.decode(good + b"\xa0") == b'{"jsonrpc":"2.0","method":"x","params":{}}'


def test_bytes_after_a_cbor_message_are_refused() -> None:
    with pytest.raises(Invalid, match="after its end"):
        cbor.decode(cbor.encode(message({})) + b"\x00")


def test_an_integer_that_cbor_cannot_say_exactly_is_refused() -> None:
    with pytest.raises(Invalid, match="64 bits"):
        cbor.encode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":36893488147419103232}}')


def test_both_sides_must_speak_an_encoding() -> None:
    every = set(Format)
    assert choose(every, every) is Format.CBOR
    assert choose(every, {Format.COMPACT}) is Format.COMPACT
    assert choose({Format.CBOR}, {Format.COMPACT}) is Format.JSON


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json", Format.JSON),
        ("Application/JSON; charset=utf-8", Format.JSON),
        ('application/json;Variant="Compact"', Format.COMPACT),
        ("APPLICATION/CBOR", Format.CBOR),
        ("application/json; variant=other", None),
        ("text/plain; x=application/cbor", None),
        ("application/json, application/cbor", None),
        ("", None),
    ],
)
def test_a_content_type_is_read_as_a_media_type(value: str, expected: Format | None) -> None:
    assert of_content_type(value) is expected


@pytest.mark.parametrize("format_", list(Format))
def test_a_formats_own_content_type_names_it(format_: Format) -> None:
    assert of_content_type(CONTENT_TYPES[format_]) is format_


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json, text/event-stream", Format.JSON),
        ("application/cbor;q=0, application/json", Format.JSON),
        ("application/cbor;q=0.5, application/json;q=0.9", Format.JSON),
        ("application/cbor, application/json", Format.CBOR),
        ("application/json;variant=compact;q=0.2, application/json;q=0.8", Format.JSON),
        ("*/*", Format.JSON),
        ("application/*;q=0.1, application/cbor;q=0.05", Format.JSON),
        ("*/*, application/json;q=0", None),
        ("application/cbor;q=nonsense", None),
        ('text/plain;x="a,application/cbor"', None),
    ],
)
def test_accept_weighs_by_quality(value: str, expected: Format | None) -> None:
    assert of_accept(value, set(Format)) is expected


def test_accept_gets_only_what_is_offered() -> None:
    assert of_accept("application/cbor, application/json;q=0.1", {Format.JSON}) is Format.JSON
    assert of_accept("application/cbor", {Format.JSON}) is None


@given(value=st.text(max_size=60))
def test_no_header_text_raises(value: str) -> None:
    of_content_type(value)
    of_accept(value, set(Format))

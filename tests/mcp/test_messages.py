"""JSON-RPC text, line framing, event streams and seals: whatever bytes come, an answer or the one typed error."""

from __future__ import annotations

import contextlib
import itertools
import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Malformed, Notification, Request, Response
from delta_protocol.mcp import sse
from delta_protocol.mcp.lines import LineSplitter, LineTooLong
from delta_protocol.mcp.sealing import Forged, seal, unseal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
@example(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\xff"}}')
@example(b"[" * 100_000)
@example(b'{"jsonrpc":"2.0","id":null,"method":"x"}')
def test_any_bytes_are_a_message_or_malformed(text: bytes) -> None:
    with contextlib.suppress(Malformed):
        jsonrpc.parse(text)


@given(st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=50), st.text("abc/"), JSON)
def test_requests_and_results_come_back_as_they_were(identity: int | str, method: str, value: object) -> None:
    params = json.dumps({"value": value}, ensure_ascii=False).encode()
    assert jsonrpc.parse(jsonrpc.encode_request(identity, method, params)) == Request(identity, method, params)
    assert jsonrpc.parse(jsonrpc.encode_result(identity, params)) == Response(identity, params)


def test_integers_beyond_a_double_keep_their_digits() -> None:
    params = b'{"id":1917043659912705296,"big":123456789012345678901234567890}'
    message = jsonrpc.parse(b'{"jsonrpc":"2.0","method":"x","params":' + params + b"}")
    assert message == Notification("x", params)


@pytest.mark.parametrize(
    ("text", "code", "identity"),
    [
        (b"", PARSE_ERROR, None),
        (b"{", PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}', INVALID_REQUEST, 7),
    ],
)
def test_what_is_no_message_names_the_fault_and_the_id(text: bytes, code: int, identity: int | None) -> None:
    with pytest.raises(Malformed) as caught:
        jsonrpc.parse(text)
    assert (caught.value.code, caught.value.id) == (code, identity)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(0, 400), max_size=10))
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    whole, cut = LineSplitter(), LineSplitter()
    expected = whole.feed(data) + whole.finish()
    assert [line for part in chunks(data, cuts) for line in cut.feed(part)] + cut.finish() == expected


def test_marks_and_carriage_returns_are_no_part_of_a_line() -> None:
    assert LineSplitter().feed(b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{}\n') == [b'{"a":1}', b"{}"]


def test_a_line_over_the_limit_is_dropped_and_the_next_one_read() -> None:
    splitter = LineSplitter(10)
    found = splitter.feed(b"x" * 11 + b"y" * 100) + splitter.feed(b"z\nok\n")
    assert isinstance(found[0], LineTooLong)
    assert found[1:] == [b"ok"]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1), max_size=5),
    st.lists(st.integers(0, 600), max_size=10),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_events_come_back_however_they_are_cut(texts: list[str], cuts: list[int], end: bytes) -> None:
    data = b"".join(sse.KEEP_ALIVE + sse.encode(text.encode()) for text in texts).replace(b"\n", end)
    parser = sse.SseParser()
    events = [event for part in chunks(data, cuts) for event in parser.feed(part)]
    assert [event.data.decode() for event in events] == texts


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_an_event_parser_takes_any_bytes(parts: list[bytes]) -> None:
    parser = sse.SseParser(max_event=100)
    try:
        for part in parts:
            parser.feed(part)
    except sse.EventTooLong:
        return


def test_an_endless_event_is_cut_off() -> None:
    parser = sse.SseParser(max_event=1000)
    with pytest.raises(sse.EventTooLong):
        for _ in range(100):
            parser.feed(b"data: " + b"x" * 50 + b"\n")


@given(st.binary(max_size=200), st.integers(0, 600), st.text(max_size=3))
def test_a_changed_seal_is_forged(payload: bytes, place: int, other: str) -> None:
    sealed = seal(b"k" * 32, "purpose", payload)
    assert unseal(b"k" * 32, "purpose", sealed) == payload
    cut = place % len(sealed)
    changed = sealed[:cut] + other + sealed[cut + 1 :]
    if changed != sealed:
        with pytest.raises(Forged):
            unseal(b"k" * 32, "purpose", changed)
    with pytest.raises(Forged):
        unseal(b"k" * 32, "another purpose", sealed)
    with pytest.raises(Forged):
        unseal(b"x" * 32, "purpose", sealed)


@given(st.text(max_size=80))
def test_any_text_as_a_seal_is_forged_and_nothing_worse(text: str) -> None:
    with pytest.raises(Forged):
        unseal(b"k" * 32, "purpose", text)


def test_a_message_over_several_lines_becomes_one() -> None:
    pretty = b'{\r\n  "a": "line\\nbreak"\n}'
    assert msgspec.json.decode(jsonrpc.single_line(pretty)) == {"a": "line\nbreak"}
    assert b"\n" not in jsonrpc.single_line(pretty)

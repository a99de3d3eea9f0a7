"""What a Streamable HTTP server checks of a request's headers and body, as pure functions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import INVALID_PARAMS, Request
from delta_protocol.mcp import http_coding, http_ladder
from delta_protocol.mcp.errors import HEADER_MISMATCH, UNSUPPORTED_VERSION, RpcError
from delta_protocol.mcp.http_ladder import Headers, HttpRefusal

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HEADERS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add"}
PAIRS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), max_size=6)


def headers(values: dict[str, str]) -> Headers:
    return Headers([(name.encode("latin-1"), value.encode("latin-1")) for name, value in values.items()])


def call(meta: dict[str, Any] = META, **params: Any) -> Request:
    return Request(1, "tools/call", json.dumps({"name": "add", **params, "_meta": meta}).encode())


def refusal_of(check: Callable[[], object]) -> HttpRefusal | None:
    try:
        check()
    except HttpRefusal as refusal:
        return refusal
    return None


@pytest.mark.parametrize(
    ("host", "origin", "allowed"),
    [
        ("127.0.0.1:8420", None, True),
        ("localhost", "http://localhost:3000", True),
        ("[::1]:8420", "http://[::1]:1", True),
        ("LOCALHOST:1", "http://127.0.0.1", True),
        ("tools.example:8443", "https://app.example", True),
        ("tools.example:9", None, True),
        ("evil.test", None, False),
        ("evil.test:8420", None, False),
        ("127.0.0.1.evil.test", None, False),
        ("[::1].evil.test", None, False),
        ("localhost@evil.test", None, False),
        ("", None, False),
        (None, None, False),
        ("127.0.0.1", "http://evil.test", False),
        ("127.0.0.1", "null", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "http://localhost.evil.test", False),
        ("127.0.0.1", "file://localhost", False),
    ],
)
def test_only_own_hosts_and_allowed_origins_come_in(host: str | None, origin: str | None, allowed: bool) -> None:
    """acceptance 69."""
    given_headers = {name: value for name, value in (("Host", host), ("Origin", origin)) if value is not None}
    refusal = refusal_of(
        lambda: http_ladder.check_source(headers(given_headers), ["tools.example"], ["https://app.example"])
    )
    assert (refusal.status if refusal else None) == (None if allowed else 403)


@given(PAIRS)
def test_any_headers_are_judged_without_a_fault(pairs: list[tuple[bytes, bytes]]) -> None:
    names = [b"host", b"origin", b"accept", b"content-type", b"content-length", b"mcp-method", b"mcp-protocol-version"]
    for name in names:
        for _, value in pairs:
            given_headers = Headers([*pairs, (name, value)])
            for check in (
                lambda: http_ladder.check_source(given_headers, [], []),  # noqa: B023
                lambda: http_coding.read_accept(given_headers),  # noqa: B023
                lambda: http_coding.check_content(given_headers, 100),  # noqa: B023
                lambda: http_ladder.accept_modern(call(), given_headers),  # noqa: B023
            ):
                refusal = refusal_of(check)
                if refusal is not None:
                    assert 400 <= refusal.status < 500
                    jsonrpc.parse(refusal.body)


@pytest.mark.parametrize(
    ("changed", "meta", "code"),
    [
        ({}, META, None),
        ({"Mcp-Method": "tools/list"}, META, HEADER_MISMATCH),
        ({"Mcp-Method": "TOOLS/CALL"}, META, HEADER_MISMATCH),
        ({"Mcp-Method": None}, META, HEADER_MISMATCH),
        ({"Mcp-Name": "other"}, META, HEADER_MISMATCH),
        ({"Mcp-Name": None}, META, HEADER_MISMATCH),
        ({"Mcp-Name": "=?base64?YWRk?="}, META, None),
        ({"Mcp-Name": "=?base64?YWR?="}, META, HEADER_MISMATCH),
        ({"MCP-Protocol-Version": None}, META, HEADER_MISMATCH),
        ({"MCP-Protocol-Version": "2025-11-25"}, META, HEADER_MISMATCH),
        ({}, {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, INVALID_PARAMS),
        ({}, META | {"io.modelcontextprotocol/clientCapabilities": []}, INVALID_PARAMS),
        ({"MCP-Protocol-Version": "2031-01-01"}, META, HEADER_MISMATCH),
        (
            {"MCP-Protocol-Version": "2031-01-01"},
            META | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"},
            UNSUPPORTED_VERSION,
        ),
    ],
)
def test_headers_must_say_what_the_body_says(
    changed: dict[str, str | None], meta: dict[str, Any], code: int | None
) -> None:
    """acceptance 57; spec 1.4, steps 3 to 6, each with HTTP 400 and the request's id."""
    values = {name: value for name, value in (HEADERS | changed).items() if value is not None}
    if code is None:
        assert http_ladder.accept_modern(call(meta), headers(values)).version == "2026-07-28"
        return
    with pytest.raises(HttpRefusal) as caught:
        http_ladder.accept_modern(call(meta), headers(values))
    assert (caught.value.status, caught.value.code) == (400, code)
    assert json.loads(caught.value.body)["id"] == 1


def test_a_repeated_routing_header_is_refused() -> None:
    pairs = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    with pytest.raises(HttpRefusal) as caught:
        http_ladder.accept_modern(call(), Headers([*pairs, (b"mcp-method", b"tools/call")]))
    assert caught.value.code == HEADER_MISMATCH


@given(st.text(max_size=60))
def test_header_values_come_back(text: str) -> None:
    try:
        encoded = http_ladder.encode_header_value(text)
    except UnicodeEncodeError:
        return
    assert encoded.isascii()
    assert encoded == encoded.strip()
    assert "\r" not in encoded
    assert "\n" not in encoded
    assert http_ladder.decode_header_value(encoded) == text


@given(st.text(max_size=40))
def test_any_header_value_is_decoded_or_refused(text: str) -> None:
    with contextlib.suppress(RpcError):
        http_ladder.decode_header_value(f"=?base64?{text}?=")


@pytest.mark.parametrize(
    ("accept", "json_allowed", "sse_allowed"),
    [
        ("application/json, text/event-stream", True, True),
        ("application/json", True, False),
        ("text/event-stream;q=0.9", False, True),
        ("*/*", True, True),
        ("application/json;q=0, text/event-stream", False, True),
        ("application/json, */*;q=0", True, False),
        ("application/json; q=0.5, text/event-stream; q=0", True, False),
    ],
)
def test_accept_decides_the_forms_of_an_answer(accept: str, json_allowed: bool, sse_allowed: bool) -> None:
    accepts = http_coding.read_accept(headers({"Accept": accept}))
    assert (accepts.json, accepts.sse) == (json_allowed, sse_allowed)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json; variant=compact"}, 415),
        ({"Content-Type": "application/cbor"}, 415),
        ({}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "application/json", "Content-Length": "101"}, 413),
        ({"Content-Type": "application/json", "Content-Length": "9" * 30}, 400),
        ({"Content-Type": "application/json", "Content-Length": "-1"}, 400),
    ],
)
def test_content_is_refused_before_it_is_read(values: dict[str, str], status: int) -> None:
    with pytest.raises(HttpRefusal) as caught:
        http_coding.check_content(headers(values), 100)
    assert caught.value.status == status

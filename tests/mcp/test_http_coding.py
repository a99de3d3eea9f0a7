"""Forms of bodies over HTTP: compact JSON and CBOR where they were switched on, gzip both ways, bounds on unpacking."""

from __future__ import annotations

import contextlib
import gzip
import json
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.codecs import compact
from delta_protocol.codecs.negotiate import Format
from delta_protocol.mcp.http_coding import Content, decode_body, read_accept
from delta_protocol.mcp.http_ladder import Headers, HttpRefusal
from tests.mcp.samples import Log, modern, sample_server
from tests.mcp.web import Site, routing, site

LIST = modern(1, "tools/list")
COMPACT = "application/json; variant=compact"


async def send(web: Site, body: bytes, headers: dict[str, str]) -> Any:
    return await web.post(body, routing(LIST) | headers)


async def test_other_forms_are_spoken_only_where_they_were_switched_on() -> None:
    """CS-08-03."""
    plain = json.dumps(LIST).encode()
    async with site(sample_server(Log())) as web:
        assert (await send(web, plain, {"accept": COMPACT})).status_code == 406
        assert (await send(web, compact.encode(plain), {"content-type": COMPACT})).status_code == 415
        assert (await send(web, cbor2.dumps(LIST), {"content-type": "application/cbor"})).status_code == 415
    async with site(sample_server(Log()), formats=(Format.COMPACT, Format.CBOR)) as web:
        given = {"content-type": "Application/JSON; Variant=Compact", "accept": COMPACT}
        answer = await send(web, compact.encode(plain), given)
        assert answer.headers["content-type"] == COMPACT
        assert json.loads(compact.decode(answer.content))["result"]["tools"]
        given = {"content-type": "application/cbor", "accept": "application/json;q=0.1, APPLICATION/CBOR"}
        answer = await send(web, cbor2.dumps(LIST), given)
        assert answer.headers["content-type"] == "application/cbor"
        assert cbor2.loads(answer.content)["result"]["tools"]
        answer = await send(web, plain, {"accept": "application/cbor;q=0, application/json"})
        assert answer.headers["content-type"] == "application/json"
        assert (await send(web, b"\xff", {"content-type": "application/cbor"})).status_code == 400


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("br;q=1, *;q=0.5", True), ("gzip;q=0, *", False), ("GZIP;q=0.2", True), ("identity", False)],
)
async def test_long_answers_are_compressed_for_those_who_ask(accepted: str, compressed: bool) -> None:
    async with site(sample_server(Log())) as web:
        answer = await web.modern(LIST, {"accept-encoding": accepted})
        assert (answer.headers.get("content-encoding") == "gzip") == compressed
        assert answer.json()["result"]["tools"]
        short = await web.modern(modern(2, "tools/call", name="none"), {"accept-encoding": accepted})
        assert "content-encoding" not in short.headers
        stream = await web.modern(LIST, {"accept-encoding": accepted, "accept": "text/event-stream"})
        assert "content-encoding" not in stream.headers


async def test_a_compressed_request_is_taken_only_where_that_was_announced() -> None:
    packed = gzip.compress(json.dumps(LIST).encode())
    async with site(sample_server(Log())) as web:
        answer = await send(web, packed, {"content-encoding": "gzip"})
        assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    async with site(sample_server(Log()), takes_gzip=True, max_body=100_000) as web:
        assert (await send(web, packed, {"content-encoding": "gzip"})).json()["result"]["tools"]
        answer = await send(web, packed, {"content-encoding": "br"})
        assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip")
        bomb = gzip.compress(b" " * 50_000_000)
        assert len(bomb) < 100_000
        assert (await send(web, bomb, {"content-encoding": "gzip"})).status_code == 413
        for broken in (packed[:-4], packed + packed, b"{}"):
            assert (await send(web, broken, {"content-encoding": "gzip"})).status_code == 400


@given(st.binary(max_size=200), st.sampled_from(Format), st.booleans())
def test_any_body_is_decoded_or_refused(body: bytes, form: Format, gzipped: bool) -> None:
    with contextlib.suppress(HttpRefusal):
        assert len(decode_body(Content(len(body), form, gzipped), body, 1000)) <= 1000


def test_without_accept_the_answer_comes_as_the_request_did() -> None:
    assert read_accept(Headers([]), [Format.CBOR], Format.CBOR).format is Format.CBOR

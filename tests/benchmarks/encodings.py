"""What the forms of a message save: bytes over HTTP, with and without gzip, and processor time."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from delta_actors.mcp import connect
from delta_protocol.codecs.negotiate import Format
from delta_protocol.jsonrpc import encode_result
from delta_protocol.mcp.http_coding import Accepts, encode_body
from tests.benchmarks.tables import Table, interleaved, median

FORMS = (Format.JSON, Format.COMPACT, Format.CBOR)


def measure() -> Sequence[Table]:
    messages = trio.run(_messages)
    return [_bytes(messages), _time(messages)]


async def _messages() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "delta_actors.demo.tickets", "--db", str(Path(folder) / "tickets.db")]
        async with connect(command) as client:
            listed = await client.request("tools/list")
            small = (await client.call_tool("get_ticket", b'{"id":"T-1"}')).result
    records = [{"id": n, "name": f"user {n}", "email": f"user{n}@example.com", "active": n % 3 > 0} for n in range(100)]
    text = "".join(f"line {number} of a longer text\n" for number in range(280))
    return {
        "one ticket": encode_result(1, small),
        "`tools/list` of the tickets": encode_result(1, listed),
        "100 records": encode_result(1, json.dumps({"content": [], "structuredContent": {"result": records}}).encode()),
        "8,000 characters of text": encode_result(
            1, json.dumps({"content": [{"type": "text", "text": text}]}).encode()
        ),
    }


def _accepts(form: Format, *, gzip: bool) -> Accepts:
    return Accepts(json=True, sse=False, format=form, gzip=gzip)


WAYS = {
    f"{form.value}{', gzip' if gzip else ''}": _accepts(form, gzip=gzip) for gzip in (False, True) for form in FORMS
}


def _bytes(messages: dict[str, bytes]) -> Table:
    rows = [
        [name, f"{len(message):,} B"]
        + [f"{len(encode_body(way, message)[0]) / len(message):.2f}x" for way in list(WAYS.values())[1:]]
        for name, message in messages.items()
    ]
    note = "The body over HTTP, as a share of the one in plain JSON. Below 500 bytes nothing is compressed."
    return Table("Bytes of an answer by its form", note, ["message", *WAYS], rows)


def _time(messages: dict[str, bytes]) -> Table:
    rows: list[list[str]] = []
    for name, message in messages.items():
        taken = interleaved({way: partial(_once, accepts, message) for way, accepts in list(WAYS.items())[1:4]}, 20)
        rows.append([name, *(f"{median(samples) * 1e6:,.0f} µs" for samples in taken.values())])
    note = "Processor time to write the answer in that form; plain JSON is what it begins with."
    return Table("What a form costs", note, ["message", *list(WAYS)[1:4]], rows)


def _once(accepts: Accepts, message: bytes) -> list[float]:
    began = time.process_time()
    for _ in range(10):
        encode_body(accepts, message)
    return [(time.process_time() - began) / 10]

"""What the journal keeps from whoever reads its file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delta_protocol.catalogue.model import Catalogue, Mode
from delta_protocol.changes.model import DeltaState, Read, Recording
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Refused
from delta_protocol.wire.journal import (
    GetDelta,
    Replan,
)
from tests.changes.catalogues import tickets
from tests.journal.stand import Stand, closing, standing, ticket
from tests.journal.world import TICKET


async def test_secrets_are_nowhere_in_what_is_stored(tmp_path: Path) -> None:
    (collection,) = tickets().collections
    assert collection.update is not None
    binding = msgspec.structs.replace(collection.update, fields={**collection.update.fields, "api_token": "api_token"})
    known = tuple(_with_token(tool) if tool.name == "update_ticket" else tool for tool in tickets().tools)
    changed = (msgspec.structs.replace(collection, update=binding),)
    connector = msgspec.structs.replace(tickets(Mode.FULL), tools=known, collections=changed)
    secret = "hunter2-is-a-secret"
    async with standing(tmp_path, snapshot=Catalogue(7, (connector,))) as stand:
        stand.world.tickets["T-1"]["api_token"] = "the-old-secret"
        before = TICKET | {"api_token": "the-old-secret"}
        code = f"t.api_token = '{secret}'; t.title = 'uses {secret}'"
        recording = Recording(
            (ticket({"api_token": secret, "title": f"uses {secret}"}, before),),
            reads=(Read("tickets", "get_ticket", b'{"id":"T-1"}', 1, exact_json.encode(before)),),
        )
        report = await stand.done(recording, code=code, reads=recording.reads)
        assert report.state is DeltaState.APPLIED
        assert stand.world.tickets["T-1"]["api_token"] == secret
        page = await stand.operator.ask(GetDelta(report.id))
        with pytest.raises(Refused, match="not kept whole"):
            await stand.client.ask(Replan(report.id))
    import sqlite3
    import zlib

    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    with sqlite3.connect(tmp_path / "journal.db") as db:
        rows = [
            value
            for table in ("delta", "call", "event")
            for row in db.execute(f"SELECT * FROM {table}")
            for value in row
        ]
    db.close()
    stored += b"".join(zlib.decompress(value) for value in rows if isinstance(value, bytes) and value[:1] == b"x")
    stored += msgspec.json.encode(page)
    for planted in (secret, "the-old-secret"):
        assert planted.encode() not in stored


def _with_token(tool: Any) -> Any:
    schema = json.loads(tool.input_schema)
    schema["properties"]["api_token"] = {"type": "string"}
    return msgspec.structs.replace(tool, input_schema=json.dumps(schema).encode())


async def test_the_file_is_private(stand: Stand, tmp_path: Path) -> None:
    await stand.done(closing())
    for path in tmp_path.glob("journal.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

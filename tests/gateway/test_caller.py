"""What a client is told and asked on behalf of connectors."""

from __future__ import annotations

import json
from typing import Any, cast

import trio

from delta_actors.gateway.caller import Caller
from delta_actors.mcp import RequestContext
from delta_protocol.wire.message import Answer, Json, Progress, Question


class Client:
    """A client's side of one call: it keeps what it hears."""

    conversation = "c1"
    wants_progress = True

    def __init__(self) -> None:
        self.deadline = trio.current_time() + 60
        self.heard: list[tuple[float, str]] = []
        self.asked: list[dict[str, Any]] = []

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        await trio.lowlevel.checkpoint()
        assert total is None
        self.heard.append((progress, message))

    async def ask_client(self, method: str, params: Json) -> Json:
        await trio.lowlevel.checkpoint()
        self.asked.append({"method": method, **json.loads(params)})
        return b'{"action":"decline"}'


async def test_a_person_reads_which_connector_asks() -> None:
    client = Client()
    caller = Caller(cast("RequestContext", client), 60)
    answer = await caller.listen(
        Question("tickets", "elicitation/create", b'{"message":"Which one?","n":9007199254740993}')
    )
    assert answer == Answer(result=b'{"action":"decline"}')
    await caller.listen(Question("tickets", "roots/list", b"{}"))
    assert client.asked == [
        {"method": "elicitation/create", "message": "tickets asks: Which one?", "n": 9007199254740993},
        {"method": "roots/list"},
    ]


async def test_a_connectors_own_count_is_told_and_progress_only_grows() -> None:
    client = Client()
    caller = Caller(cast("RequestContext", client), 60)
    for item in (Progress(7, 10, "copying"), Progress(1, 3), Progress(2), Progress(5, message="done")):
        await caller.listen(item)
    assert client.heard == [(1, "copying (7 of 10)"), (2, "(1 of 3)"), (3, "(1 of 3)"), (4, "done")]

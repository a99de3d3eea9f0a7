"""Programs cancelled at random moments: what the journal then says is what the connector's database holds."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_protocol.changes.model import DeltaState
from delta_protocol.changes.states import MOVING
from delta_protocol.config import StackConfig
from delta_protocol.wire.journal import DeltaReport, ListDeltas
from delta_protocol.wire.message import Role
from tests.gateway.house import Client, House, open_house, tickets

PROGRAMS = 40
LONGEST = 0.4
"""Seconds after which the most patient of the clients cancels."""

ENDED_UNMADE = {DeltaState.DECLINED, DeltaState.FAILED, DeltaState.REFUSED, DeltaState.ROLLED_BACK}


def comments(state_dir: Path) -> list[str]:
    with closing(sqlite3.connect(state_dir / "tickets.db")) as database:
        return sorted(row[0] for row in database.execute("SELECT body FROM comment WHERE body LIKE 'x%'"))


async def impatient(client: Client, number: int, after: float, answers: list[dict[str, Any]]) -> None:
    code = f'const t = await tickets.ticket.get("T-3"); t.comments.push({{body: "x{number}"}}); t.title = "t{number}";'
    request = await client.begin("tools/call", {"name": "delta", "arguments": {"code": code}})
    with trio.move_on_after(after):
        reply = await client.end(request)
        answers.append(reply["result"]["structuredContent"]["delta"])
        return
    await client.tell("notifications/cancelled", {"requestId": request})


async def settled(house: House) -> tuple[DeltaReport, ...]:
    """Return the journal's deltas once nothing is under way. One that stays planned is nobody's, and never comes."""
    operator = house.system.ref(Role.JOURNAL, as_=Role.OPERATOR)
    with trio.fail_after(60):
        while True:
            listed: tuple[DeltaReport, ...] = (await operator.ask(ListDeltas(limit=200))).deltas
            if not any(each.state in {*MOVING, DeltaState.PLANNED, DeltaState.WAITING} for each in listed):
                return listed
            await trio.sleep(0.1)


async def test_after_a_storm_of_cancels_journal_database_and_answers_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(5)
    answers: list[dict[str, Any]] = []
    async with open_house(tmp_path, StackConfig(connectors={"tickets": tickets(tmp_path)})) as house:
        async with house.client() as client:
            await client.call("delta_read", code='return (await tickets.ticket.get("T-3")).title')
            async with trio.open_nursery() as nursery:
                for number in range(PROGRAMS):
                    nursery.start_soon(impatient, client, number, chance.random() * LONGEST, answers)
                    await trio.sleep(0.02)
            assert not (await client.call("delta_read", code="return 1")).is_error
        listed = await settled(house)
    states = {each.id: each.state for each in listed}
    assert set(states.values()) <= {DeltaState.APPLIED, *ENDED_UNMADE}
    assert all(each.reason for each in listed if each.state in ENDED_UNMADE)
    made = sorted(
        each.code.partition('body: "')[2].partition('"')[0] for each in listed if states[each.id] == "applied"
    )
    assert comments(tmp_path) == made
    assert [states[answer["id"]] for answer in answers] == [answer["state"] for answer in answers]
    assert "contradicts" not in caplog.text
    assert "broke off" not in caplog.text

"""Connectors whose tools run as tasks: to clients and programs they are calls like any others, in all pairs of eras."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
import trio

from delta_actors.mcp import HttpParameters, open_http
from delta_protocol.catalogue.model import Mode
from delta_protocol.config import ConnectorConfig, StackConfig
from tests.gateway.house import House, open_house
from tests.gateway.test_questions import ABLE, Era, Person, client_of

TASKER = Path(__file__).parent / "connectors" / "tasker.py"
PAIRS = pytest.mark.parametrize(
    ("front", "back"), [("legacy", "legacy"), ("legacy", "modern"), ("modern", "legacy"), ("modern", "modern")]
)


@asynccontextmanager
async def tasking(state: Path, back: str, expose: Literal["program", "tools"] = "tools") -> AsyncIterator[House]:
    """Give a house with the connector, once its tools are known."""
    arguments = (str(TASKER), back, str(state / "notes"))
    connector = ConnectorConfig(
        command=sys.executable, args=arguments, expose=expose, session="conversation", reviewed=True, mode=Mode.FULL
    )
    async with open_house(state, StackConfig(connectors={"tasker": connector})) as house:
        async with open_http(HttpParameters(house.url, era="modern")) as client, house.client() as other:
            await other.call("delta_read", refs=["tasker"])
            with trio.fail_after(30):
                while expose == "tools" and len(await client.list_tools()) < 7:
                    await trio.sleep(0.02)
        yield house


def notes(state: Path) -> list[str]:
    return (state / "notes").read_text().split("\n")[:-1] if (state / "notes").exists() else []


@PAIRS
async def test_a_task_of_a_connector_is_followed_to_its_result(tmp_path: Path, front: Era, back: str) -> None:
    async with tasking(tmp_path, back) as house, client_of(house, front) as client:
        definitions = [json.loads(each) for each in await client.list_tools()]
        assert all("execution" not in each for each in definitions)
        assert b"done" in (await client.call_tool("job", b"{}")).result


@PAIRS
async def test_what_a_task_asks_is_asked_of_the_client_behind_it(tmp_path: Path, front: Era, back: str) -> None:
    person = Person()
    async with tasking(tmp_path, back) as house, client_of(house, front) as client:
        answer = await client.call_tool("ask_job", b"{}", on_question=person.answer)
        assert b"Hello Ada" in answer.result
        assert [method for method, _ in person.asked] == ["elicitation/create"]
        assert "tasker asks" in person.asked[0][1]["message"]


@PAIRS
async def test_a_cancelled_call_cancels_the_task_behind_it(tmp_path: Path, front: Era, back: str) -> None:
    async with tasking(tmp_path, back) as house, client_of(house, front, ABLE) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "hang", b"{}")
            with trio.fail_after(20):
                while "hanging" not in notes(tmp_path):
                    await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        with trio.fail_after(20):
            while "cancelled" not in notes(tmp_path):
                await trio.sleep(0.02)


@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_programs_use_tasks_as_calls_and_what_became_of_a_write_is_never_guessed(
    tmp_path: Path, back: str
) -> None:
    async with tasking(tmp_path, back, expose="program") as house, house.client() as client:
        assert (await client.call("delta", code="return await tasker.job({});")).structured["returned"] == "done"
        kept = await client.call("delta", code='await tasker.keep({value: "a"});')
        assert kept.structured["delta"]["state"] == "applied", kept.text
        refused = await client.call("delta", code='await tasker.keep({value: "refuse"});')
        assert refused.structured["delta"]["state"] == "rolled_back", refused.text
        lost = await client.call("delta", code='await tasker.keep({value: "die"});')
        assert lost.structured["delta"]["state"] == "unknown", lost.text
        assert notes(tmp_path) == ["keep a", "keep refuse", "keep die"]

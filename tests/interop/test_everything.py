"""@modelcontextprotocol/server-everything through the gateway, for clients of both eras and of other hands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_protocol.config import ConnectorConfig, StackConfig
from tests.gateway.house import House, open_house
from tests.gateway.test_offers import Era, ask, client_of
from tests.gateway.test_questions import Person, said
from tests.gateway.test_questions import client_of as able_client_of
from tests.gateway.test_watches import UPDATED, listening
from tests.interop import peers

CLIENT = Path(__file__).parent / "clients" / "sdk_asking_client.py"


@asynccontextmanager
async def everything(state: Path) -> AsyncIterator[House]:
    """A gateway with the server behind it, over stdio, once all that it has is known."""
    peers.require()
    script = str(peers.script("@modelcontextprotocol/server-everything"))
    connector = ConnectorConfig(command=str(peers.NODE), args=(script, "stdio"), expose="tools", session="conversation")
    async with open_house(state, StackConfig(connectors={"everything": connector})) as house:
        with trio.fail_after(60):
            while not await _settled(house):
                await trio.sleep(0.1)
        yield house


async def _settled(house: House) -> bool:
    async with client_of(house, "legacy") as client:
        await client.list_tools()
        if "prompts" not in json.loads(client.capabilities):
            return False
        prompts = (await ask(client, "prompts/list"))["prompts"]
        return bool(prompts and (await ask(client, "resources/templates/list"))["resourceTemplates"])


# acceptance 51
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_it_asks_the_client_whose_call_it_is(front: Era, tmp_path: Path) -> None:
    async with everything(tmp_path) as house, able_client_of(house, front) as client:
        person = Person()
        names = {json.loads(tool)["name"] for tool in await client.list_tools()}
        assert {"trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"} <= names
        await client.call_tool("trigger-elicitation-request", b"{}", on_question=person.answer)
        assert person.asked[-1][1]["message"].startswith("everything asks: ")
        sampled = await said(client, "trigger-sampling-request", person, prompt="hi", maxTokens=5)
        assert "forty-two" in sampled
        assert "file:///home" in await said(client, "get-roots-list", person)
        opened = await said(client, "trigger-url-elicitation", person, url="https://example.com/x")
        assert "User completed the URL elicitation flow" in opened
        assert person.asked[-1][1]["url"] == "https://example.com/x"


@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_its_resources_are_read_and_watched(front: Era, tmp_path: Path) -> None:
    uri = "demo://resource/dynamic/text/1"
    async with everything(tmp_path) as house, listening(house, front, uri) as listener:
        client = listener.client
        assert "architecture.md" in {each["name"] for each in (await ask(client, "resources/list"))["resources"]}
        assert (await ask(client, "resources/read", uri=uri))["contents"][0]["uri"] == uri
        await client.call_tool("toggle-subscriber-updates", b"{}")
        await listener.heard(UPDATED, uri=uri)
        template = {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}
        found = await ask(client, "completion/complete", ref=template, argument={"name": "resourceId", "value": "1"})
        assert found["completion"]["values"] == ["1"]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_the_official_sdks_client_meets_it_through_the_gateway(era: str, tmp_path: Path) -> None:
    async with everything(tmp_path) as house:
        command = [str(peers.PYTHON), str(CLIENT), era, house.url]
        with trio.fail_after(90):
            done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert seen["protocol"] == ("2025-11-25" if era == "legacy" else era)
        assert [word for word in seen["asked"] if word in ("sampling", "roots")] == ["sampling", "roots"]
        assert any(word.startswith("everything asks: ") for word in seen["asked"])
        assert "Ada" in seen["elicited"]
        assert "forty-two" in seen["sampled"]
        assert "file:///home/ada" in seen["roots"]
        assert [done for done, _ in seen["progress"]] == sorted({done for done, _ in seen["progress"]})
        assert seen["progress"][-1] == [3, 3]
        assert "args-prompt" in seen["prompts"]
        assert "Turin" in seen["prompt"]
        assert seen["completed"] == ["Engineering"]
        assert seen["resources"] >= 5
        assert "text" in seen["read"].lower()

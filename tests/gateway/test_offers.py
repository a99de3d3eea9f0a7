"""Resources, prompts and completions of connectors reach clients of both eras (three-tools 14)."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from delta_actors.mcp import DeltaClient, HttpParameters, RpcError, open_http
from delta_protocol.config import ConnectorConfig, StackConfig
from tests.gateway.house import House, open_house

SHELF = Path(__file__).parent / "connectors" / "shelf.py"
Era = Literal["legacy", "modern"]


def shelf(name: str, era: str = "", **changes: Any) -> ConnectorConfig:
    settings: dict[str, Any] = {"command": sys.executable, "expose": "tools", **changes}
    return ConnectorConfig(args=(str(SHELF), name, era), **settings)


@asynccontextmanager
async def shelves(state: Path, **connectors: ConnectorConfig) -> AsyncIterator[House]:
    async with open_house(state, StackConfig(connectors=connectors)) as house:
        yield house


@asynccontextmanager
async def client_of(house: House, era: Era) -> AsyncIterator[DeltaClient]:
    async with open_http(HttpParameters(house.url, era=era)) as client:
        yield client


async def ask(client: DeltaClient, method: str, **params: Any) -> Any:
    return json.loads(await client.request(method, json.dumps(params).encode()))


async def until_listed(house: House, prompts: int) -> None:
    """Wait until the gateway shows so many prompts."""
    async with client_of(house, "modern") as client:
        with trio.fail_after(30):
            await client.list_tools()
            while (
                "prompts" not in await offered(house) or len((await ask(client, "prompts/list"))["prompts"]) < prompts
            ):
                await trio.sleep(0.02)


async def offered(house: House) -> dict[str, Any]:
    async with client_of(house, "legacy") as client:
        capabilities: dict[str, Any] = json.loads(client.capabilities)
        return capabilities


# acceptance 3, 59
@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_names_are_the_connectors_own_and_qualified_on_a_clash(front: Era, back: str, tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one", back), two=shelf("two", back)) as house:
        await until_listed(house, 6)
        async with client_of(house, front) as client:
            prompts = [each["name"] for each in (await ask(client, "prompts/list"))["prompts"]]
            assert [prompts[0], prompts[1], prompts[3], prompts[4]] == [
                "one.review",
                "only_one",
                "two.review",
                "only_two",
            ]
            assert all(len(name) <= 64 for name in prompts)
            assert len(set(prompts)) == 6
            assert await prompt_text(client, prompts[2]) == "long of one"
            assert await prompt_text(client, prompts[5]) == "long of two"
            assert await prompt_text(client, "two.review", word="texts") == "two reviews texts"
            assert await prompt_text(client, "one.only_one", word="x") == "one and x"

            uris = [each["uri"] for each in (await ask(client, "resources/list"))["resources"]]
            assert uris == ["delta://one/file:///a", "one://own", "delta://two/file:///a", "two://own"]
            for uri, text in (
                ("delta://two/file:///a", "the file of two"),
                ("one://own", "only one has this"),
                ("two://item/7", "item 7 of two"),
                ("delta://two/two://item/8", "item 8 of two"),
            ):
                (contents,) = (await ask(client, "resources/read", uri=uri))["contents"]
                assert contents["text"] == text
                assert contents["uri"] in (uri, "two://item/8")
            templates = (await ask(client, "resources/templates/list"))["resourceTemplates"]
            assert [each["uriTemplate"] for each in templates] == ["one://item/{number}", "two://item/{number}"]

            for uri in ("file:///a", "nothing://here", "one://item/../x"):
                with pytest.raises(RpcError) as caught:
                    await ask(client, "resources/read", uri=uri)
                assert caught.value.code == (-32002 if front == "legacy" else -32602)
                assert json.loads(caught.value.data or b"{}") == {"uri": uri}


async def test_links_in_results_lead_to_the_resource_that_clients_know(tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one"), two=shelf("two")) as house:
        await until_listed(house, 6)
        async with client_of(house, "modern") as client:
            result = await ask(client, "tools/call", name="two_get_link", arguments={})
            link, embedded = result["content"]
            assert link["uri"] == embedded["resource"]["uri"] == "delta://two/file:///a"


@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_completions_lead_back_to_the_connectors_own_names(front: Era, tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one"), two=shelf("two")) as house:
        await until_listed(house, 6)
        async with client_of(house, front) as client:
            prompt = {"type": "ref/prompt", "name": "two.review"}
            found = await ask(client, "completion/complete", ref=prompt, argument={"name": "word", "value": "x"})
            assert found["completion"]["values"] == ["two-x", "two-xs"]
            template = {"type": "ref/resource", "uri": "one://item/{number}"}
            found = await ask(client, "completion/complete", ref=template, argument={"name": "number", "value": "4"})
            assert found["completion"]["values"] == ["40", "41", "42"]
            with pytest.raises(RpcError) as caught:
                nothing = {"type": "ref/prompt", "name": "review"}
                await ask(client, "completion/complete", ref=nothing, argument={"name": "word", "value": ""})
            assert caught.value.code == -32602


# acceptance 3
async def test_names_and_lists_are_the_same_after_a_restart_before_any_connector_runs(tmp_path: Path) -> None:
    before: dict[str, Any] = {}
    for began in (True, False):
        connectors = {name: shelf(name) if began else shelf(name, command="/nowhere") for name in ("one", "two")}
        async with shelves(tmp_path, **connectors) as house:
            if began:
                await until_listed(house, 6)
                await trio.sleep(0.2)  # what was learned is written within this time
            async with client_of(house, "modern") as client:
                lists = {method: await ask(client, f"{method}/list") for method in ("prompts", "resources")}
            if began:
                before = lists
            assert lists == before
            assert {"prompts", "resources", "completions"} <= set(await offered(house))


# acceptance 27
async def test_only_what_connectors_have_is_advertised(tmp_path: Path) -> None:
    tickets = ConnectorConfig(
        command=sys.executable, args=("-m", "delta_actors.demo.tickets", "--db", str(tmp_path / "t.db")), expose="tools"
    )
    async with shelves(tmp_path, tickets=tickets) as house:
        async with client_of(house, "modern") as client:
            with trio.fail_after(30):
                while len(await client.list_tools()) < 4 or "logging" not in await offered(house):
                    await trio.sleep(0.02)
        assert set(await offered(house)) == {"tools", "logging"}, "the demo logs, and has nothing else"
        async with client_of(house, "legacy") as client:
            with pytest.raises(RpcError) as caught:
                await ask(client, "resources/list")
            assert caught.value.code == -32601


async def prompt_text(client: DeltaClient, name: str, **arguments: str) -> str:
    got = await ask(client, "prompts/get", name=name, arguments=arguments)
    return str(got["messages"][0]["content"]["text"])

"""Subscriptions and list changes pass between clients and connectors of either era (three-tools 14, acceptance 49)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_actors.mcp import DeltaClient, HttpParameters, RpcError, open_http
from delta_protocol.jsonrpc import Json
from delta_protocol.wire.message import Role
from tests.gateway.house import House
from tests.gateway.test_offers import Era, ask, client_of, shelf, shelves, until_listed

UPDATED = "notifications/resources/updated"


class Listener:
    """A client that listens, and what it was told."""

    def __init__(self, client: DeltaClient) -> None:
        self.client = client
        self.told: list[tuple[str, Any]] = []
        self._news = trio.Event()

    def take(self, method: str, params: Json) -> None:
        body = json.loads(params)
        body.pop("_meta", None)
        if method != "notifications/tools/list_changed":
            self.told.append((method, body))
        self._news.set()
        self._news = trio.Event()

    async def heard(self, method: str, **params: Any) -> None:
        with trio.fail_after(20):
            while (method, params) not in self.told:
                await self._news.wait()
        self.told.remove((method, params))


@asynccontextmanager
async def listening(house: House, era: Era, *uris: str) -> AsyncIterator[Listener]:
    """A client of that era that subscribed to the resources, and to what becomes of the lists."""
    async with open_http(HttpParameters(house.url, era=era)) as client, trio.open_nursery() as nursery:
        listener = Listener(client)
        if era == "legacy":
            client.on_notification = listener.take
            for uri in uris:
                await ask(client, "resources/subscribe", uri=uri)
        else:
            wanted: dict[str, Any] = {"promptsListChanged": True, "resourcesListChanged": True}
            if uris:
                wanted["resourceSubscriptions"] = list(uris)
            params = json.dumps({"notifications": wanted}).encode()
            nursery.start_soon(lambda: client.request("subscriptions/listen", params, on_notification=listener.take))
            await listener.heard("notifications/subscriptions/acknowledged", notifications=wanted)
        yield listener
        nursery.cancel_scope.cancel()


async def watched(client: DeltaClient, connector: str) -> list[str]:
    result = json.loads((await client.call_tool(f"{connector}_get_watched", b"{}")).result)
    uris: list[str] = result["structuredContent"]["result"]
    return uris


async def until_watched(client: DeltaClient, connector: str, *uris: str) -> None:
    with trio.fail_after(20):
        while await watched(client, connector) != list(uris):
            await trio.sleep(0.02)


@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_changes_of_a_resource_reach_those_who_watch_it_under_the_uri_they_know(
    front: Era, back: str, tmp_path: Path
) -> None:
    async with shelves(tmp_path, one=shelf("one", back), two=shelf("two", back)) as house:
        await until_listed(house, 6)
        async with listening(house, front, "delta://one/file:///a") as first, client_of(house, "modern") as other:
            async with listening(house, front, "delta://one/file:///a", "delta://two/file:///a") as second:
                await until_watched(other, "one", "file:///a")
                await until_watched(other, "two", "file:///a")
                await other.call_tool("one_change", b'{"text":"new"}')
                await first.heard(UPDATED, uri="delta://one/file:///a")
                await second.heard(UPDATED, uri="delta://one/file:///a")
                await other.call_tool("two_change", b'{"text":"new"}')
                await second.heard(UPDATED, uri="delta://two/file:///a")
                assert UPDATED not in dict(first.told)
            await until_watched(other, "two")
            assert await watched(other, "one") == ["file:///a"], "somebody still watches it"
            await other.call_tool("one_change", b'{"text":"newer"}')
            await first.heard(UPDATED, uri="delta://one/file:///a")
            if front == "legacy":
                await ask(first.client, "resources/unsubscribe", uri="delta://one/file:///a")
                await until_watched(other, "one")
        async with client_of(house, "modern") as other:
            await until_watched(other, "one")


@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_a_changed_list_is_told_once_it_was_listed_again(front: Era, back: str, tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one", back)) as house:
        await until_listed(house, 3)
        async with listening(house, front) as listener:
            await trio.testing.wait_all_tasks_blocked(0.1)
            await listener.client.call_tool("add_prompt", b'{"name":"fresh"}')
            await listener.heard("notifications/prompts/list_changed")
            names = [each["name"] for each in (await ask(listener.client, "prompts/list"))["prompts"]]
            assert "fresh" in names


@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_a_restarted_connector_is_subscribed_to_again(back: str, tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one", back)) as house:
        await until_listed(house, 3)
        async with listening(house, "modern", "file:///a") as listener, client_of(house, "modern") as other:
            await other.call_tool("stop", b"{}")
            await listener.heard(UPDATED, uri="file:///a")
            await other.call_tool("change", b'{"text":"after"}')
            await listener.heard(UPDATED, uri="file:///a")


async def test_nobody_subscribes_to_what_is_not_there(tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one"), two=shelf("two")) as house:
        await until_listed(house, 6)
        async with client_of(house, "legacy") as client:
            with pytest.raises(RpcError) as caught:
                await ask(client, "resources/subscribe", uri="nothing://here")
            assert caught.value.code == -32002


async def test_what_a_conversations_own_session_tells_reaches_that_conversation_alone(tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one", "legacy", session="conversation")) as house:
        await until_listed(house, 3)
        async with listening(house, "legacy", "file:///a") as mine, listening(house, "legacy", "file:///a") as other:
            await mine.client.call_tool("change", b'{"text":"mine"}')
            await mine.heard(UPDATED, uri="file:///a")
            await other.client.call_tool("change", b'{"text":"others"}')
            await other.heard(UPDATED, uri="file:///a")
            assert UPDATED not in dict(mine.told)
            assert UPDATED not in dict(other.told)


@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_subscriptions_outlive_the_registry(back: str, tmp_path: Path) -> None:
    async with shelves(tmp_path, one=shelf("one", back)) as house:
        await until_listed(house, 3)
        async with listening(house, "modern", "file:///a") as listener, client_of(house, "modern") as other:
            assert await watches(other)
            house.system.kill(Role.REGISTRY)
            with trio.fail_after(30):
                while house.system.restarts(Role.REGISTRY) == 0 or not await watches(other):
                    await trio.sleep(0.05)
            await other.call_tool("change", b'{"text":"after"}')
            await listener.heard(UPDATED, uri="file:///a")


async def watches(client: DeltaClient) -> bool:
    result = json.loads((await client.call_tool("get_watched", b"{}")).result)
    return bool(result.get("structuredContent", {}).get("result"))

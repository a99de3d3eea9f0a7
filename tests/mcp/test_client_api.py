"""`DeltaClient` as a program uses it: the same calls over stdio and HTTP, in both eras."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from conformance.official import everything_server
from delta_actors.mcp import (
    Change,
    ClientFeatures,
    DeltaClient,
    DeltaServer,
    NotSent,
    RpcError,
    ServerSettings,
    changes,
    connect,
    open_http,
)
from delta_actors.mcp.http_client import HttpParameters
from delta_protocol.mcp.questions import accept_with_defaults
from tests.mcp.web import site

PROGRAM = Path(__file__).parents[2] / "conformance" / "everything_server.py"
Era = Literal["legacy", "modern"]
WAYS = [(way, era) for way in ("stdio", "http") for era in ("legacy", "modern")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with everything_server() as url:
        yield url


async def accept(params: bytes) -> bytes:
    return accept_with_defaults(params, {"name": "Ann", "confirm": True, "context": "rain"})


async def sample(params: bytes) -> bytes:
    text = json.loads(params)["messages"][0]["content"]["text"]
    return json.dumps({"role": "assistant", "content": {"type": "text", "text": text.upper()}, "model": "m"}).encode()


FEATURES = ClientFeatures(fill_form=accept, sample=sample, roots=["file:///home"], tasks=True)


@asynccontextmanager
async def opened(way: str, era: Era, url: str) -> AsyncGenerator[DeltaClient, None]:
    target: str | list[str] = url if way == "http" else [sys.executable, str(PROGRAM), "stdio"]
    async with connect(target, features=FEATURES, era=era) as client:
        assert client.era == era
        yield client


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_everything_a_server_offers_can_be_used(way: str, era: Era, url: str) -> None:
    async with opened(way, era, url) as client:
        await client.ping()
        assert "test_simple_text" in {json.loads(tool)["name"] for tool in await client.list_tools()}
        assert "test://static-text" in {json.loads(each)["uri"] for each in await client.list_resources()}
        (template,) = [json.loads(each) for each in await client.list_resource_templates()]
        assert template["uriTemplate"] == "test://template/{id}/data"
        assert "test_simple_prompt" in {json.loads(each)["name"] for each in await client.list_prompts()}
        read = json.loads(await client.read_resource("test://static-text"))
        assert read["contents"][0]["text"].startswith("This is the content")
        got = json.loads(await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}))
        assert "arg1='a', arg2='b'" in got["messages"][0]["content"]["text"]
        assert await client.complete("arg1", "par", prompt="test_prompt_with_arguments") == ["paris", "park", "party"]
        with pytest.raises(TypeError):
            await client.complete("arg1", "par")
        with pytest.raises(RpcError):
            await client.read_resource("test://nothing")


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_what_the_server_asks_is_answered_by_the_clients_features(way: str, era: Era, url: str) -> None:
    async with opened(way, era, url) as client:
        if era == "legacy":
            asked = await client.call_tool("test_sampling", b'{"prompt":"loud"}')
            assert "LOUD" in json.loads(asked.result)["content"][0]["text"]
            asked = await client.call_tool("test_elicitation", b'{"message":"Who?"}')
            assert "accept" in json.loads(asked.result)["content"][0]["text"]
        else:
            asked = await client.call_tool("test_input_required_result_multiple_inputs", b"{}")
            assert not asked.is_error
            prompt = json.loads(await client.get_prompt("test_input_required_result_prompt"))
            assert prompt["messages"]


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_call_that_becomes_a_task_is_followed_to_its_result(way: str, url: str) -> None:
    async with opened(way, "modern", url) as client:
        reply = await client.call_tool("slow_compute", b'{"seconds":0.1,"label":"x"}')
        assert json.loads(reply.result)["content"][0]["text"] == "computed x in 0.1 s"
        confirmed = await client.call_tool("confirm_delete", b'{"filename":"f"}')
        assert json.loads(confirmed.result)["content"][0]["text"] == "deleted f"
        assert (await client.call_tool("failing_job", b"{}")).is_error
        with pytest.raises(RpcError, match="the job broke"):
            await client.call_tool("protocol_error_job", b"{}")


def watched_server(ttl_ms: int = 0) -> DeltaServer:
    server = DeltaServer("watched", "1", settings=ServerSettings(ttl_ms=ttl_ms))

    @server.resource("memo://today")
    def today() -> str:
        return "rain"

    @server.tool()
    def touch() -> str:
        server.resource_updated("memo://today")
        server.resource_updated("memo://other")
        return "touched"

    @server.tool()
    def grow() -> str:
        @server.tool(name=f"grown_{len(grown)}")
        def another() -> str:
            return "new"

        grown.append(another)
        return "grown"

    grown: list[Any] = []
    return server


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_changes_of_resources_and_lists_are_heard_while_they_are_wanted(era: Era) -> None:
    async with site(watched_server()) as web, open_http(HttpParameters(web.url, era=era)) as client:
        async with changes(client, "memo://today") as heard:
            found: list[Change] = []
            with trio.fail_after(20):
                while len(found) < 2:
                    await client.call_tool("touch", b"{}")
                    await client.call_tool("grow", b"{}")
                    with trio.move_on_after(0.5):
                        found += [await heard.receive(), await heard.receive()]
        assert {change.uri for change in found if change.uri} <= {"memo://today"}
        assert {change.method for change in found} <= {
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        }


async def test_a_list_is_kept_as_long_as_the_server_allows_and_no_longer_than_it_holds() -> None:
    async with site(watched_server(ttl_ms=60_000)) as web, open_http(HttpParameters(web.url, era="modern")) as client:
        assert len(await client.list_tools()) == 2
        asked: list[str] = []
        request = client.request

        async def counted(method: str, *arguments: Any, **options: Any) -> bytes:
            asked.append(method)
            return await request(method, *arguments, **options)

        client.request = counted  # type: ignore[method-assign]
        assert len(await client.list_tools()) == 2
        assert asked == []
        with trio.fail_after(20):
            while len(await client.list_tools()) < 4:
                await client.call_tool("grow", b"{}")
        assert asked.count("tools/list") >= 1


async def test_a_list_that_changed_while_it_was_read_or_was_heard_of_by_a_subscription_is_not_kept() -> None:
    server = watched_server(ttl_ms=60_000)
    async with site(server) as web, open_http(HttpParameters(web.url, era="modern")) as client:
        request = client.request

        async def overtaken(method: str, *arguments: Any, **options: Any) -> bytes:
            answer = await request(method, *arguments, **options)
            client.take_notification("notifications/tools/list_changed", b"{}")
            return answer

        client.request = overtaken  # type: ignore[method-assign]
        assert len(await client.list_tools()) == 2
        client.request = request  # type: ignore[method-assign]

        @server.tool()
        def late() -> str:
            return "late"

        assert len(await client.list_tools()) == 3
        assert len(await client.list_resources()) == 1
        async with changes(client) as heard:
            with trio.fail_after(20):
                while True:
                    server.changed("resources")
                    with trio.move_on_after(0.2):
                        change = await heard.receive()
                        if change.method == "notifications/resources/list_changed":
                            break

            @server.resource("memo://new")
            def new() -> str:
                return "new"

            with trio.fail_after(20):
                while len(await client.list_resources()) != 2:
                    await trio.sleep(0.05)


async def test_a_target_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="no http or ws URL"):
        async with connect("ftp://example.com"):
            pass
    with pytest.raises(ValueError, match="at least its program"):
        async with connect([]):
            pass
    with pytest.raises(NotSent):
        async with connect(["no-such-program-anywhere"]):
            pass


def test_the_example_meets_its_own_demo_server_and_tells_in_words_what_it_cannot_reach() -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "client_usage.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=60, check=True)
    assert "tickets speaks 2026-07-28" in done.stdout
    assert "list_tickets: done" in done.stdout
    nowhere = [sys.executable, str(example), "http://127.0.0.1:1/mcp"]
    lost = subprocess.run(nowhere, capture_output=True, text=True, timeout=60, check=False)
    assert (lost.returncode, "cannot be reached" in lost.stderr, "Traceback" in lost.stderr) == (1, True, False)

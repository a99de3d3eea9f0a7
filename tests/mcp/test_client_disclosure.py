"""A client that fetches no more of a server's tools than it needs, from servers with and without the extension."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from delta_actors.mcp import DeltaClient, DeltaServer, Disclosure, HttpParameters, open_http
from delta_actors.mcp.methods import Method
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.disclosure import DESCRIBE, INDEX, SEARCH
from delta_protocol.mcp.incoming import IncomingCall
from tests.mcp.web import site


def office(options: Disclosure | None) -> DeltaServer:
    server = DeltaServer("office", "1", disclosure=options)

    @server.tool(summary="Say hello")
    def greet(name: str) -> str:
        """Say hello."""
        return f"Hello {name}"

    @server.tool()
    def close_ticket(number: int) -> str:
        """Close a ticket."""
        return f"closed {number}"

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "x-mcp-header": "City"}},
        "required": ["city"],
    }

    @server.tool(description="Weather.", input_schema=json.dumps(schema).encode())
    def weather(city: str) -> str:
        return f"fine in {city}"

    return server


class Counted:
    """Which methods a client sent."""

    def __init__(self, client: DeltaClient) -> None:
        self.sent: list[str] = []
        send = client.request

        async def request(method: str, params: Json = b"{}", **options: object) -> Json:
            self.sent.append(method)
            return await send(method, params, **options)  # type: ignore[arg-type]

        client.request = request  # type: ignore[method-assign]

    def since(self) -> list[str]:
        sent, self.sent = self.sent, []
        return sent


@asynccontextmanager
async def joined(server: DeltaServer, era: str) -> AsyncGenerator[tuple[DeltaClient, Counted], None]:
    async with site(server) as web, open_http(HttpParameters(web.url, era=era)) as client:  # type: ignore[arg-type]
        yield client, Counted(client)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_definitions_are_fetched_one_by_one_and_kept(era: str) -> None:
    """CS-02-04."""
    async with joined(office(Disclosure()), era) as (client, counted):
        tools = client.tools
        assert tools.progressive
        entries = await tools.index()
        assert (entries[0].name, entries[0].summary) == ("greet", "Say hello")
        found = await tools.describe(["greet", "nothing"])
        assert list(found) == ["greet"]
        assert json.loads(found["greet"])["inputSchema"]["required"] == ["name"]
        assert counted.since() == [INDEX, DESCRIBE]
        await tools.describe(["greet"])
        assert counted.since() == []
        assert await tools.describe(["nothing"]) == {}
        assert [entry.name for entry in await tools.search("tickets")] == ["close_ticket"]
        assert [entry.name for entry in await tools.index("tickets")] == ["close_ticket"]
        assert counted.since() == [DESCRIBE, SEARCH, INDEX]


async def test_a_change_makes_kept_definitions_be_checked_by_their_digests() -> None:
    async with joined(office(Disclosure()), "modern") as (client, counted):
        before = await client.tools.describe(["greet", "weather"])
        client.take_notification("notifications/tools/list_changed", b"{}")
        counted.since()
        assert await client.tools.describe(["greet", "weather"]) == before
        assert counted.since() == [DESCRIBE]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_plain_servers_list_answers_the_same_questions(era: str) -> None:
    """W11."""
    async with joined(office(None), era) as (client, counted):
        tools = client.tools
        assert not tools.progressive
        assert [entry.name for entry in await tools.index()] == ["greet", "close_ticket", "weather"]
        assert [entry.name for entry in await tools.search("tickets")] == ["close_ticket"]
        assert list(await tools.describe(["nothing", "greet"])) == ["greet"]
        assert counted.since() == ["tools/list"]
        tools.changed()
        await tools.index()
        assert counted.since() == ["tools/list"]


async def test_a_call_that_needs_headers_describes_its_tool_and_lists_none() -> None:
    """spec 1.5, 6.2."""
    listed: list[bool] = []
    server = office(Disclosure())
    tools = server.executor.methods
    find = tools.find

    def watched(call: IncomingCall) -> Method:
        if call.method in ("tools/list", DESCRIBE):
            listed.append(call.method == DESCRIBE)
        return find(call)

    tools.find = watched  # type: ignore[method-assign]
    async with joined(server, "modern") as (client, _):
        assert b"Hello Ada" in (await client.call_tool("greet", b'{"name":"Ada"}')).result
        assert listed == []
        assert b"fine in Rome" in (await client.call_tool("weather", b'{"city":"Rome"}')).result
        assert b"fine in Oslo" in (await client.call_tool("weather", b'{"city":"Oslo"}')).result
        assert listed == [True]

"""A connector over Streamable HTTP."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_actors.mcp import DeltaServer, HttpSettings, ServerSettings, serve_http
from delta_actors.mcp.methods import BOTH
from delta_protocol.config import ConnectorConfig
from delta_protocol.mcp.versions import Era
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import Outcome, ReadTool
from tests.mcp.test_http_client import STREAM, Fake, faked, http, legacy, result
from tests.registry.systems import catalogue_when, from_, listed, planned, registry, service_when, started


def counter(eras: tuple[Era, ...] = BOTH) -> DeltaServer:
    server = DeltaServer("counter", "1.0.0", settings=ServerSettings(eras=eras))
    count = 0

    @server.tool(read_only=True)
    def get_count() -> int:
        """Return the count."""
        return count

    @server.tool()
    def add_one() -> int:
        """Count one more."""
        nonlocal count
        count += 1
        return count

    return server


@asynccontextmanager
async def served(server: DeltaServer) -> AsyncGenerator[str]:
    shutdown = trio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with trio.open_nursery() as nursery:
            settings = HttpSettings(b"k" * 32)
            await nursery.start(serve_http, server, [listener], settings, shutdown)
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                shutdown.set()


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_reads_and_planned_writes_go_over_http_and_websockets(tmp_path: Path, scheme: str) -> None:
    async with (
        served(counter()) as url,
        registry(tmp_path / "state", {"counter": ConnectorConfig(url=url.replace("http", scheme))}) as system,
    ):
        catalogue = await catalogue_when(await started(system), listed("counter"))
        written = await from_(system, Role.JOURNAL).ask(planned(catalogue, "counter", "add_one"))
        assert written.outcome is Outcome.OK
        read = await from_(system, Role.SANDBOX).ask(ReadTool("counter", "get_count", b"{}"))
        assert read.outcome is Outcome.OK
        assert b"1" in read.result


async def test_an_address_where_nothing_listens_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    async with registry(tmp_path / "state", {"gone": ConnectorConfig(url=url)}) as system:
        ref = await started(system)
        catalogue = await catalogue_when(ref, lambda found: found.connectors[0].state in ("backoff", "failed"))
        assert url in catalogue.connectors[0].detail


TOOL = {"name": "get_it", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
WRITE = {"name": "set_it", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}}


def listing(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
    """A legacy server with a session, a tool that reads and one that writes."""
    if message.get("method") == "tools/list":
        return result(message, {"tools": [TOOL, WRITE]})
    return legacy(fake, verb, headers, message)


# acceptance 43, 55
async def test_one_session_serves_all_calls_is_begun_again_once_it_is_forgotten_and_ended_at_the_end(
    tmp_path: Path,
) -> None:
    forgotten: set[str] = set()

    def forgets(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        if message.get("method") == "tools/call" and headers["mcp-session-id"] in forgotten:
            return http(404)
        return listing(fake, verb, headers, message)

    async with faked(forgets) as fake:
        async with registry(tmp_path / "state", {"old": ConnectorConfig(url=fake.url)}) as system:
            catalogue = await catalogue_when(await started(system), listed("old"))
            sandbox, journal = from_(system, Role.SANDBOX), from_(system, Role.JOURNAL)
            for _ in range(50):
                assert (await sandbox.ask(ReadTool("old", "get_it", b"{}"))).outcome is Outcome.OK
            assert (await journal.ask(planned(catalogue, "old", "set_it"))).outcome is Outcome.OK
            assert fake.methods.count("initialize") == 1
            forgotten.add("s1")
            assert (await journal.ask(planned(catalogue, "old", "set_it"))).outcome is Outcome.OK
            assert (await sandbox.ask(ReadTool("old", "get_it", b"{}"))).outcome is Outcome.OK
            assert fake.methods.count("initialize") == 2
        assert fake.methods[-1] == "DELETE"
        assert fake.seen[-1]["mcp-session-id"] == "s2"


# acceptance 44
async def test_a_write_whose_connection_broke_is_unknown_and_not_repeated_and_a_read_is_repeated_once(
    tmp_path: Path,
) -> None:
    made: list[str] = []

    def breaks(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        if message.get("method") == "tools/call":
            made.append(message["params"]["name"])
            return None
        return listing(fake, verb, headers, message)

    async with (
        faked(breaks) as fake,
        registry(tmp_path / "state", {"old": ConnectorConfig(url=fake.url)}) as system,
    ):
        catalogue = await catalogue_when(await started(system), listed("old"))
        written = await from_(system, Role.JOURNAL).ask(planned(catalogue, "old", "set_it"))
        assert written.outcome is Outcome.NO_REPLY
        read = await from_(system, Role.SANDBOX).ask(ReadTool("old", "get_it", b"{}"))
        assert read.outcome is Outcome.NO_REPLY
    assert made == ["set_it", "get_it", "get_it"]


# acceptance 56
async def test_a_server_is_asked_for_its_era_once_and_again_where_that_proved_wrong(tmp_path: Path) -> None:
    connectors: dict[str, ConnectorConfig] = {}
    async with faked(listing) as fake:
        connectors["old"] = ConnectorConfig(url=fake.url)
        for _ in range(3):
            async with registry(tmp_path / "state", connectors) as system:
                await service_when(await started(system), "old", lambda found: found.era == "legacy")
        assert fake.methods.count("server/discover") == 1
        assert fake.methods.count("initialize") == 3
    async with served(counter(("modern",))) as url:
        async with registry(tmp_path / "state", {"old": ConnectorConfig(url=url)}) as system:
            await service_when(await started(system), "old", lambda found: found.era == "modern")


@pytest.mark.parametrize("answer", ["a stream that stays open", "a page"])
async def test_an_answer_that_cannot_be_read_ends_the_call_at_once_and_names_the_connector(
    tmp_path: Path, answer: str
) -> None:
    def garbled(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        match message.get("method"):
            case "tools/list":
                return result(message, {"tools": [TOOL]})
            case "tools/call" if answer == "a page":
                return http(200, b"<html>junk</html>", content_type="text/html")
            case "tools/call":
                return http(200, b'data: {"jsonrpc": "2.0", junk\n\n', content_length="5000", **STREAM)
            case _:
                return legacy(fake, verb, headers, message)

    async with (
        faked(garbled) as fake,
        registry(tmp_path / "state", {"muddle": ConnectorConfig(url=fake.url, call_timeout=300.0)}) as system,
    ):
        await catalogue_when(await started(system), listed("muddle"))
        with trio.fail_after(30):
            read = await from_(system, Role.SANDBOX).ask(ReadTool("muddle", "get_it", b"{}"))
    assert read.outcome is Outcome.NO_REPLY
    assert read.message.startswith("muddle: ")
    assert "junk" in read.message

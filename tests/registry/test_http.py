"""A connector over Streamable HTTP."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_actors.mcp import DeltaServer, HttpSettings, serve_http
from delta_protocol.config import ConnectorConfig
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import Outcome, ReadTool
from tests.mcp.test_http_client import STREAM, Fake, faked, http, legacy, result
from tests.registry.systems import catalogue_when, from_, listed, planned, registry, started


def counter() -> DeltaServer:
    server = DeltaServer("counter", "1.0.0")
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

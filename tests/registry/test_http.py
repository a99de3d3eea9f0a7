"""A connector over Streamable HTTP."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from delta_actors.mcp import DeltaServer, HttpSettings, serve_http
from delta_protocol.config import ConnectorConfig
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import Outcome, ReadTool
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

"""The official Python SDK as the other side: its client against our server, our client against its server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_actors.mcp import DeltaClient, HttpParameters, NotSent, StdioParameters, open_http, open_stdio
from tests.interop import peers
from tests.mcp.samples import Log, sample_server
from tests.mcp.web import listening, site

HERE = Path(__file__).parent
CLIENT = HERE.parent / "interop" / "clients" / "sdk_client.py"
EXAMPLE = HERE.parents[1] / "docs" / "examples" / "stdio_server.py"
SCRIPT = json.dumps(
    [
        {"tool": "add", "arguments": {"a": 1, "b": 2}},
        {"tool": "wait", "arguments": {}, "cancel_after": 0.5},
        {"tool": "add", "arguments": {"a": 3, "b": 4}},
    ]
)
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


async def run_client(era: str, script: str, *target: str) -> Any:
    command = [str(peers.PYTHON), str(CLIENT), era, script, *target]
    with trio.fail_after(60):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@ERAS
async def test_its_client_calls_and_cancels_over_http(era: str) -> None:
    peers.require()
    log = Log()
    async with site(sample_server(log)) as web:
        seen = await run_client(era, SCRIPT, web.url)
        assert seen["answers"][0]["structuredContent"] == {"result": 3}
        assert seen["answers"][1] == {"cancelled": True}
        assert seen["answers"][2]["structuredContent"] == {"result": 7}
        with trio.fail_after(30):
            await log.cancelled.wait()


@ERAS
async def test_its_client_calls_over_stdio(era: str) -> None:
    peers.require()
    script = json.dumps([{"tool": "add", "arguments": {"a": 1, "b": 2}}])
    seen = await run_client(era, script, sys.executable, str(EXAMPLE))
    assert seen["tools"] == ["add", "count"]
    assert seen["answers"][0]["structuredContent"] == {"result": 3}


async def check(client: DeltaClient) -> None:
    told: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str) -> None:
        told.append(progress)

    assert client.server_info.name == "official"
    assert [json.loads(tool)["name"] for tool in await client.list_tools()] == ["add", "count"]
    assert b"3" in (await client.call_tool("add", b'{"a":1,"b":2}')).result
    await client.call_tool("count", b'{"to":3}', on_progress=on_progress)
    assert told == [1, 2, 3]


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_our_client_uses_its_server_over_stdio(era: Any) -> None:
    peers.require()
    parameters = StdioParameters(str(peers.PYTHON), (str(HERE / "sdk_server.py"), "stdio"), era=era, probe_timeout=20)
    async with open_stdio(parameters) as client:
        assert client.era == ("legacy" if era == "legacy" else "modern")
        await check(client)


async def test_our_client_uses_its_server_over_http_in_both_eras() -> None:
    peers.require()
    with listening() as free:
        port = free.getsockname()[1]
    command = [str(peers.PYTHON), str(HERE / "sdk_server.py"), "http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            await until_served(port)
            for era in ("legacy", "auto"):
                async with open_http(HttpParameters(f"http://127.0.0.1:{port}/mcp", era=era)) as client:
                    assert client.era == ("legacy" if era == "legacy" else "modern")
                    await check(client)
        finally:
            server.kill()


async def test_our_client_falls_back_to_the_event_stream_of_the_oldest_revision() -> None:
    peers.require()
    with listening() as free:
        port = free.getsockname()[1]
    command = [str(peers.PYTHON), str(HERE / "sdk_server.py"), "sse", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            await until_served(port, "sse")
            async with open_http(HttpParameters(f"http://127.0.0.1:{port}/sse")) as client:
                assert client.era == "legacy"
                await check(client)
                with trio.move_on_after(0.3) as slow:
                    await client.call_tool("count", b'{"to":1000000}', on_progress=_ignored)
                assert slow.cancelled_caught
                await check(client)
            with pytest.raises(NotSent, match="nor is it a server of 2024-11-05: HTTP 404"):
                async with open_http(HttpParameters(f"http://127.0.0.1:{port}/nothing")):
                    pass
        finally:
            server.kill()


async def _ignored(_progress: float, _total: float | None, _message: str) -> None:
    await trio.lowlevel.checkpoint()


async def until_served(port: int, path: str = "mcp") -> None:
    with trio.fail_after(60):
        while True:
            try:
                async with open_http(HttpParameters(f"http://127.0.0.1:{port}/{path}")):
                    return
            except NotSent:
                await trio.sleep(0.2)

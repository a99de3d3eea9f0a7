"""Opens a stdio connector: start, find its era, on a fresh process if the probe spoiled the first (acceptance 56)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import trio

from delta_actors.mcp.background import background
from delta_actors.mcp.client_process import GuardedProcess
from delta_actors.mcp.line_client import LineClient
from delta_actors.mcp.settling import initialize, probe
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import McpError, NotSent
from delta_protocol.mcp.handshake import Agreement, ClientIdentity, NotUnderstood
from delta_protocol.mcp.lines import MAX_LINE
from delta_protocol.mcp.types import Implementation

PROBE_LIMIT = 3.0
"""Seconds a server may take for `server/discover` before `initialize` is tried."""
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class StdioParameters:
    """How to start a connector. Seconds and bytes.

    `env` is the whole environment; None inherits ours. `era` is what an earlier start found out; `delta-mcp` begins as
    a peer of delta-mcp 0.x, whose list then has names only (use `DeltaClient.tools`). `capabilities` is the
    ClientCapabilities object (JSON text) that is declared to the server.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    cwd: str | Path | None = None
    era: Literal["auto", "legacy", "modern", "delta-mcp"] = "auto"
    start_timeout: float = 60.0
    probe_timeout: float = PROBE_LIMIT
    max_line: int = MAX_LINE
    capabilities: Json = b"{}"
    client: Implementation = field(default_factory=lambda: Implementation("delta-supervisor", "0.1.0"))


@asynccontextmanager
async def open_line_client(parameters: StdioParameters) -> AsyncGenerator[tuple[LineClient, Agreement], None]:
    """Start the process and settle on an era; on leaving, end it with its descendants.

    Raises `NotSent` where it cannot be started or does not speak the protocol within `start_timeout`.
    """
    started: list[GuardedProcess] = []
    try:
        async with background() as nursery:
            try:
                with trio.fail_after(parameters.start_timeout):
                    client, agreement = await _connect(parameters, nursery, started)
            except trio.TooSlowError:
                tail = started[-1].stderr_tail if started else ""
                raise NotSent(f"no session within {parameters.start_timeout:g} s{_shown(tail)}") from None
            yield client, agreement
    finally:
        for process in started:
            await process.aclose()


async def _connect(
    parameters: StdioParameters, nursery: trio.Nursery, started: list[GuardedProcess]
) -> tuple[LineClient, Agreement]:
    identity = ClientIdentity(parameters.client, parameters.capabilities)
    client = await _start(parameters, nursery, started)
    if parameters.era == "delta-mcp":
        client.may_be_compact = True
    elif parameters.era != "legacy":
        agreement = await probe(client, identity, nursery, parameters.probe_timeout)
        if agreement is not None:
            return client, agreement
        await started.pop().aclose()
        client = await _start(parameters, nursery, started)
    try:
        return client, await initialize(client, identity)
    except (McpError, NotUnderstood) as error:
        raise NotSent(f"initialize failed: {error}{_shown(client.process.stderr_tail)}") from None


async def _start(parameters: StdioParameters, nursery: trio.Nursery, started: list[GuardedProcess]) -> LineClient:
    process = GuardedProcess.start(parameters.command, parameters.args, parameters.env, parameters.cwd)
    started.append(process)
    client = LineClient(process, parameters.max_line)
    nursery.start_soon(client.run)
    await process.wait_started()
    return client


def _shown(stderr: str) -> str:
    lines = stderr.strip().splitlines()[-_SHOWN_LINES:]
    return "\nIts stderr ends with:\n" + "\n".join(lines) if lines else ""

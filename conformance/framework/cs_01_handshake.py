"""CS-01: the handshake of delta-mcp 0.x."""

from __future__ import annotations

import trio

from conformance.framework.target import Target
from conformance.framework.wire import DELTA_MCP, result_of
from delta_actors.mcp import StdioParameters, open_stdio


def cs_01_01_the_version_is_the_extensions_own(target: Target) -> None:
    """A delta-mcp client is answered with the extension's own version."""
    assert target.delta_mcp.info["protocolVersion"] == DELTA_MCP, target.delta_mcp.info["protocolVersion"]


def cs_01_02_the_server_says_who_it_is(target: Target) -> None:
    """`serverInfo` has a name and a version."""
    info = target.plain.info["serverInfo"]
    assert info["name"], info
    assert info["version"], info


def cs_01_03_disclosure_is_advertised_and_happens(target: Target) -> None:
    """Progressive disclosure is advertised, the session's list is one of names, and `DeltaClient` reads it as that."""
    assert target.delta_mcp.info["capabilities"]["tools"]["progressiveDisclosure"] is True
    tools = result_of(target.delta_mcp.ask("tools/list"))["tools"]
    assert all("inputSchema" not in tool for tool in tools)
    program, *arguments = target.command

    async def read() -> list[str]:
        async with open_stdio(StdioParameters(program, tuple(arguments), era="delta-mcp")) as client:
            return [entry.name for entry in await client.tools.index()]

    assert trio.run(read) == [tool["name"] for tool in tools]


def cs_01_04_compact_json_is_advertised_and_hashes_are_not(target: Target) -> None:
    """`compactJson` is advertised, `schemaHashReferencing` is not."""
    encoding = target.delta_mcp.info["capabilities"]["encoding"]
    assert encoding["compactJson"] is True
    assert not encoding.get("schemaHashReferencing")


def cs_01_05_the_session_ends_up_in_compact_json(target: Target) -> None:
    """After the handshake lines are compact-json both ways, and `tools/list` works in it."""
    assert target.command
    assert target.delta_mcp.info["encoding"]["format"] == "compact-json"
    assert target.delta_mcp.compact
    assert result_of(target.delta_mcp.ask("tools/list"))["tools"]

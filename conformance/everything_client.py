"""The client under test: plays one scenario of the official suite against the server that the suite starts.

Usage: everything_client.py URL, with the scenario, the revision and what else it needs in MCP_CONFORMANCE_SCENARIO,
MCP_CONFORMANCE_PROTOCOL_VERSION and MCP_CONFORMANCE_CONTEXT. Exit code 1: the client gave up, and says why on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import trio

if not __package__:  # started by its path
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance import everything_auth
from delta_actors.mcp import DeltaClient, McpError
from delta_actors.mcp.http_client import HttpParameters, open_http
from delta_protocol.mcp.questions import accept_with_defaults

CAPABILITIES = b'{"roots":{},"sampling":{},"elicitation":{"form":{"applyDefaults":true}}}'
ERAS: Mapping[str, Any] = {"2025-11-25": "legacy", "2026-07-28": "modern"}

Scenario = Callable[[DeltaClient, dict[str, Any]], Awaitable[None]]


async def answer(method: str, params: bytes) -> bytes:
    """Answer what a server asks, as a person would who agrees to everything."""
    if method == "elicitation/create":
        return accept_with_defaults(params, {"confirmed": True})
    if method == "roots/list":
        return b'{"roots":[]}'
    await trio.lowlevel.checkpoint()
    return b'{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"none"}'


async def _call(client: DeltaClient, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    reply = await client.call_tool(name, json.dumps(arguments or {}).encode(), on_question=answer)
    result: dict[str, Any] = json.loads(reply.result)
    return result


async def list_tools(client: DeltaClient, _context: dict[str, Any]) -> None:
    """Ask what there is."""
    await client.list_tools()


async def add_numbers(client: DeltaClient, _context: dict[str, Any]) -> None:
    """Call one tool."""
    await client.list_tools()
    await _call(client, "add_numbers", {"a": 5, "b": 3})


async def call_every_tool(client: DeltaClient, context: dict[str, Any]) -> None:
    """Call the tools that are left after the list was checked, with the arguments that the context has for them."""
    names = [json.loads(tool)["name"] for tool in await client.list_tools()]
    given = context.get("toolCalls") or [{"name": name} for name in names]
    for each in given:
        await _call(client, each["name"], each.get("arguments"))


async def use_everything(client: DeltaClient, _context: dict[str, Any]) -> None:
    """Send a request of every kind that has routing headers."""
    for tool in await client.list_tools():
        await _call(client, json.loads(tool)["name"])
    for kind, key, method in (("resources", "uri", "resources/read"), ("prompts", "name", "prompts/get")):
        if kind not in json.loads(client.capabilities):
            continue
        for item in json.loads(await client.request(f"{kind}/list"))[kind]:
            await client.request(method, json.dumps({key: item[key]}).encode())


async def keep_states_apart(client: DeltaClient, _context: dict[str, Any]) -> None:
    """Answer questions of one call while another, unrelated one is made."""
    await client.list_tools()
    async with trio.open_nursery() as nursery:
        for name in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
            nursery.start_soon(_call, client, name)


async def echo_schema(client: DeltaClient, _context: dict[str, Any]) -> None:
    """Send a schema back as it came."""
    focal, echo = (json.loads(tool) for tool in await client.list_tools())
    await _call(client, echo["name"], {"schema": focal["inputSchema"]})


SCENARIOS: Mapping[str, Scenario] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sse-retry": call_every_tool,
    "request-metadata": list_tools,
    "sep-2322-client-request-state": keep_states_apart,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_every_tool,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
}


async def play(scenario: str, url: str, version: str, context: dict[str, Any]) -> None:
    """Play a scenario. Raises `McpError` where the client gives up, `KeyError` for an unknown scenario."""
    era = ERAS.get(version, "auto")
    if scenario.startswith(everything_auth.PREFIX):
        await everything_auth.play(scenario, url, era, context)
        return
    async with open_http(HttpParameters(url, era=era, capabilities=CAPABILITIES)) as client:
        await SCENARIOS[scenario](client, context)


def main(arguments: list[str]) -> int:
    """Play the scenario that the environment names; 64 for a wrong command line."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if len(arguments) != 1 or not (scenario in SCENARIOS or scenario.startswith(everything_auth.PREFIX)):
        print(__doc__, file=sys.stderr)
        return 64
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    try:
        trio.run(play, scenario, arguments[0], os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", ""), context)
    except McpError as error:
        print(f"{scenario}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

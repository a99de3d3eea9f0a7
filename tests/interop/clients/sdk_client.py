"""The official Python SDK's client: runs the interop script against one target and prints what it saw as JSON.

usage: sdk_client.py ERA SCRIPT TARGET...   (ERA: legacy | 2026-07-28; TARGET: a URL, or a command with arguments)
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def call(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    return json.loads(result.model_dump_json(by_alias=True, exclude_none=True))


async def cut_short(client: Client, name: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
    with anyio.move_on_after(seconds) as scope:
        await client.call_tool(name, arguments)
    return {"cancelled": scope.cancelled_caught}


async def main(era: str, script: list[dict[str, Any]], target: list[str]) -> None:
    server = target[0] if "://" in target[0] else StdioServerParameters(command=target[0], args=target[1:])
    async with Client(server, mode=era) as client:
        seen: dict[str, Any] = {"protocol": client.protocol_version, "instructions": client.instructions}
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["answers"] = answers = []
        for step in script:
            if "cancel_after" in step:
                answers.append(await cut_short(client, step["tool"], step["arguments"], step["cancel_after"]))
                continue
            arguments = {key: answers_value(value, answers) for key, value in step["arguments"].items()}
            answers.append(await call(client, step["tool"], arguments))
    print(json.dumps(seen))


def answers_value(value: Any, answers: list[dict[str, Any]]) -> Any:
    """Replace `{"id_of": n}` by the id of the delta that answer `n` told."""
    if isinstance(value, dict) and "id_of" in value:
        return answers[value["id_of"]]["structuredContent"]["delta"]["id"]
    return value


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])

"""fastmcp's client: runs the interop script against one target and prints what it saw as JSON.

usage: fastmcp_client.py ERA SCRIPT TARGET...   (ERA: legacy | 2026-07-28; TARGET: a URL, or a command with arguments)
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def call(client: Client[Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool_mcp(name, arguments)
    return json.loads(result.model_dump_json(by_alias=True, exclude_none=True))


async def cut_short(client: Client[Any], name: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
    try:
        await asyncio.wait_for(client.call_tool_mcp(name, arguments), seconds)
    except TimeoutError:
        return {"cancelled": True}
    return {"cancelled": False}


def answers_value(value: Any, answers: list[dict[str, Any]]) -> Any:
    """Replace `{"id_of": n}` by the id of the delta that answer `n` told."""
    if isinstance(value, dict) and "id_of" in value:
        return answers[value["id_of"]]["structuredContent"]["delta"]["id"]
    return value


async def main(era: str, script: list[dict[str, Any]], target: list[str]) -> None:
    transport = target[0] if "://" in target[0] else StdioTransport(target[0], target[1:], keep_alive=False)
    async with Client(transport, mode=era) as client:
        seen: dict[str, Any] = {"protocol": client.session.protocol_version}
        seen["tools"] = [tool.name for tool in await client.list_tools()]
        seen["answers"] = answers = []
        for step in script:
            if "cancel_after" in step:
                answers.append(await cut_short(client, step["tool"], step["arguments"], step["cancel_after"]))
                continue
            arguments = {key: answers_value(value, answers) for key, value in step["arguments"].items()}
            answers.append(await call(client, step["tool"], arguments))
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]))

"""The official Python SDK's client: does what CS-12 looks at and prints what it saw as JSON. Runs where the SDK is.

usage: conformance_client.py ERA TARGET...   (ERA: legacy | auto; TARGET: a URL, or a command with arguments)
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters


async def call(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return {"content": [], "error": str(error)}
    return json.loads(result.model_dump_json(by_alias=True, exclude_none=True))


async def main(era: str, target: list[str]) -> None:
    if "://" in target[0]:
        server: Any = target[0]
    else:
        server = StdioServerParameters(command=target[0], args=target[1:], cwd=os.getcwd())
    async with Client(server, mode=era) as client:
        tools = (await client.list_tools()).tools
        seen = {
            "protocol": client.protocol_version,
            "capabilities": sorted(client.server_capabilities.model_fields_set),
            "tools": [json.loads(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools],
            "read": await call(client, "read_file", {"path": "README.md"}),
            "listed": await call(client, "list_dir", {}),
            "failed": await call(client, "fail", {}),
            "unknown": (await call(client, "no_such_tool", {})).get("error", ""),
            "after": len((await client.list_tools()).tools),
        }
    print(json.dumps(seen))


anyio.run(main, sys.argv[1], sys.argv[2:])

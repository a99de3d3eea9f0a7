"""A client of any MCP server: it lists, calls, and answers questions. Usage: client_usage.py URL | COMMAND...

Without arguments it starts the demo server of tickets that comes with Delta.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import trio

from delta_actors.mcp import ClientFeatures, McpError, connect


async def fill_form(params: bytes) -> bytes:
    """Decline every form; a real client shows it to a person."""
    print("the server asks:", json.loads(params)["message"])
    return b'{"action":"decline"}'


async def main(target: str | list[str]) -> None:
    """Show what the server is and has, and call the first tool that needs no arguments."""
    features = ClientFeatures(fill_form=fill_form, roots=[Path.cwd().as_uri()], tasks=True)
    async with connect(target, features=features) as client:
        print(f"{client.server_info.name} speaks {client.protocol_version}")
        tools = [json.loads(text) for text in await client.list_tools()]
        print("tools:", ", ".join(tool["name"] for tool in tools))
        free = next((tool for tool in tools if not tool["inputSchema"].get("required")), None)
        if free is not None:
            with trio.fail_after(30):
                reply = await client.call_tool(free["name"], b"{}")
            print(f"{free['name']}:", "failed" if reply.is_error else "done", f"({len(reply.result)} bytes)")


if __name__ == "__main__":
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        demo = [sys.executable, "-m", "delta_actors.demo.tickets", "--db", str(Path(folder) / "tickets.db")]
        given: str | list[str] = words[0] if len(words) == 1 and "://" in words[0] else words or demo
        try:
            trio.run(main, given)
        except McpError as error:
            sys.exit(str(error))

# mypy: ignore-errors
"""A server made with the official Python SDK. usage: sdk_server.py stdio | http PORT | sse PORT"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("official")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count with progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


if sys.argv[1] == "stdio":
    server.run("stdio")
elif sys.argv[1] == "sse":
    server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))

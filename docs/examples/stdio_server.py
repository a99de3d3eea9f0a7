"""A whole MCP server over stdio: `DeltaServer` alone, without any actor."""

from __future__ import annotations

import trio

from delta_actors.mcp import DeltaServer, RequestContext

server = DeltaServer("example", "1.0", instructions="Adds numbers and counts slowly.")


@server.tool(read_only=True)
def add(a: int, b: int) -> int:
    """Return the sum of two integers."""
    return a + b


@server.tool(read_only=True)
async def count(to: int, context: RequestContext, pause: float = 0.1) -> str:
    """Count up to a number, telling how far it is."""
    for number in range(1, to + 1):
        await context.progress(number, to, f"at {number}")
        await trio.sleep(pause)
    return f"counted to {to}"


if __name__ == "__main__":
    server.run()

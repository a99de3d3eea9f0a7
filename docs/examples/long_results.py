"""Results that are longer than a model should read at once: pages, sketches, and nothing lost.

Started without arguments it is a client that reads a thousand records from itself, page by page.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import trio

from delta_actors.mcp import DeltaClient, DeltaServer, ResultPolicy, connect

RECORDS = 1000

server = DeltaServer("records", "1.0", results=ResultPolicy(max_tokens=1500, page_size=100))


@server.tool(read_only=True)
def records() -> list[dict[str, Any]]:
    """Return all records."""
    return [{"id": number, "name": f"record {number}", "even": number % 2 == 0} for number in range(RECORDS)]


@server.tool(read_only=True)
def report() -> str:
    """Return one long text."""
    return "\n".join(f"line {number}: nothing happened" for number in range(RECORDS))


@server.tool(read_only=True)
def settings() -> dict[str, Any]:
    """Return an object with small and large parts."""
    return {"version": 7, "name": "records", "words": ["delta"] * 5000}


async def call(client: DeltaClient, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a tool's first text says, decoded where it is JSON."""
    reply = await client.call_tool(tool, json.dumps(arguments).encode())
    text = json.loads(reply.result)["content"][0]["text"]
    try:
        return json.loads(text)
    except ValueError:
        return text


async def main() -> None:
    """Read everything back."""
    async with connect([sys.executable, __file__, "serve"]) as client:
        page = await call(client, "records")
        items = list(page["items"])
        while page["hasMore"]:
            page = await call(client, "read_stored_result", result=page["result"], page=page["page"] + 1)
            items += page["items"]
        print(f"{len(items)} of {page['totalItems']} records in {page['totalPages']} pages")
        print("in order:", [item["id"] for item in items] == list(range(RECORDS)))
        sketch = await call(client, "settings")
        words = await call(client, "read_stored_result", result=sketch["result"], path=["words", 4999])
        print("an object:", sketch["_keys"], "whose last word is", words)
        print("a text begins:", str(await call(client, "report")).splitlines()[0])


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        trio.run(main)

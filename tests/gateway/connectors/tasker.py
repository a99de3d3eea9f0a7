"""A connector whose tools run as tasks. usage: tasker.py legacy|modern NOTES"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import trio

from delta_actors.mcp import DeltaServer, RequestContext, RpcError, ServerSettings, elicit
from delta_actors.mcp.tasks import TaskLimits

ERAS: dict[str, Any] = {"legacy": ("legacy",), "modern": ("modern",)}
server = DeltaServer(
    "tasker", "1", settings=ServerSettings(eras=ERAS[sys.argv[1]], tasks=TaskLimits(poll=0.05), deadline=5)
)
NOTES = Path(sys.argv[2])
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def note(word: str) -> None:
    with NOTES.open("a") as file:
        file.write(word + "\n")


@server.tool(task="required", read_only=True)
async def job(context: RequestContext) -> str:
    """Take a while."""
    await context.begin_task()
    await context.progress(1, 2, "half way")
    await trio.sleep(0.2)
    return "done"


@server.tool(task="required", read_only=True)
async def ask_job(context: RequestContext) -> str:
    """Ask for a name."""
    await context.begin_task()
    (answer,) = await context.ask(elicit("Your name?", FORM))
    return f"Hello {json.loads(answer)['content']['name']}"


@server.tool(task="required", read_only=True)
async def hang(context: RequestContext) -> str:
    """Never end."""
    await context.begin_task()
    note("hanging")
    try:
        await trio.sleep_forever()
    finally:
        note("cancelled")
    return ""


@server.tool(task="required")
async def keep(value: str, context: RequestContext) -> str:
    """Keep a value, or go wrong on the way."""
    await context.begin_task()
    note(f"keep {value}")
    if value == "refuse":
        raise RpcError(-32602, "not this one")
    if value == "die":
        await trio.sleep(0.3)
        os._exit(3)
    return "kept"


if __name__ == "__main__":
    server.run()

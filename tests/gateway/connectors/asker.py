"""A connector that asks its client. usage: asker.py [legacy | modern]"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import trio

from delta_actors.mcp import (
    DeltaServer,
    PromptMessage,
    RequestContext,
    ServerSettings,
    TextContent,
    elicit,
    elicit_url,
    roots,
    sample,
)

ERAS: dict[str, Any] = {"legacy": ("legacy",), "modern": ("modern",)}
server = DeltaServer("asker", "1", settings=ServerSettings(eras=ERAS[sys.argv[1]]))
NOTES = Path(sys.argv[2]) if len(sys.argv) > 2 else None
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def note(word: str) -> None:
    if NOTES is not None:
        with NOTES.open("a") as file:
            file.write(word + "\n")


@server.tool()
async def greet(context: RequestContext, greeting: str = "Hello") -> str:
    """Ask for a name, then for a place."""
    note("greet")
    (name,) = await context.ask(elicit("Your name?", FORM))
    (place,) = await context.ask(elicit("Your place?", FORM))
    said = [json.loads(answer).get("content", {}).get("name") for answer in (name, place)]
    return f"{greeting} {said[0]} of {said[1]}"


@server.tool()
async def open_page(context: RequestContext) -> str:
    """Ask to open an address."""
    (answer,) = await context.ask(elicit_url("Please look", "https://example.com/x"))
    return str(json.loads(answer)["action"])


@server.tool()
async def think(context: RequestContext) -> str:
    """Ask the client's model."""
    (answer,) = await context.ask(sample([PromptMessage("user", TextContent("What?"))], 10))
    return str(json.loads(answer)["content"]["text"])


@server.tool()
async def where(context: RequestContext) -> str:
    """Ask for the roots."""
    (answer,) = await context.ask(roots())
    return ",".join(root["uri"] for root in json.loads(answer)["roots"])


@server.tool(read_only=True)
async def get_name(context: RequestContext) -> str:
    """Ask while it only reads."""
    (name,) = await context.ask(elicit("Your name?", FORM))
    return str(json.loads(name)["content"]["name"])


@server.tool(read_only=True)
async def get_token(token: str, delay: float) -> str:
    """Give the token back after a while."""
    await trio.sleep(delay)
    return token


@server.tool()
async def steps(context: RequestContext) -> str:
    """Report progress and log."""
    for number in range(3):
        await context.progress(number * 2.5, 5, f"step {number}")
        await context.log("info", {"step": number}, "asker")
        await context.log("debug", "too fine")
    return "done"


@server.tool()
async def wait() -> str:
    """Wait for ever."""
    note("waiting")
    try:
        await trio.sleep_forever()
    finally:
        note("cancelled")
    return "never"


@server.tool()
async def both(context: RequestContext) -> str:
    """Ask two questions at once."""
    name, place = await context.ask(elicit("Your name?", FORM, key="n"), roots(key="r"))
    return f"{json.loads(name)['content']['name']} in {json.loads(place)['roots'][0]['uri']}"


@server.prompt()
async def ask_first(context: RequestContext) -> str:
    """Ask before it says anything."""
    (name,) = await context.ask(elicit("Whose prompt?", FORM))
    return f"for {json.loads(name)['content']['name']}"


server.run()

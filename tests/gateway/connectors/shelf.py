"""A connector with resources, prompts and completions. usage: shelf.py NAME [legacy | modern] [KEPT]

What it has says NAME, so that two of them can be told apart. KEPT is a file that counts its lists, one line for each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from delta_actors.mcp import (
    DeltaServer,
    EmbeddedResource,
    RequestContext,
    ResourceContents,
    ResourceLink,
    ServerSettings,
)

NAME = sys.argv[1]
ERAS: dict[str, Any] = {"legacy": ("legacy",), "modern": ("modern",)}
ERA = sys.argv[2] if len(sys.argv) > 2 else ""
LONG = "p" * 120

server = DeltaServer(NAME, "1", settings=ServerSettings(eras=ERAS.get(ERA, ("legacy", "modern")), page=2))
contents = {"text": f"the file of {NAME}"}


@server.resource("file:///a", mime_type="text/plain")
def both_have_it() -> str:
    return contents["text"]


@server.resource(f"{NAME}://own", name=f"own of {NAME}")
def own() -> str:
    return f"only {NAME} has this"


@server.resource(f"{NAME}://item/{{number}}")
def item(number: str) -> str:
    return f"item {number} of {NAME}"


@server.prompt()
def review(word: str = "code") -> str:
    """Review something."""
    return f"{NAME} reviews {word}"


@server.prompt(f"only_{NAME}")
def only(word: str) -> str:
    return f"{NAME} and {word}"


@server.prompt(LONG)
def long_named() -> str:
    return f"long of {NAME}"


@server.completion("word", prompt="review")
def words(value: str, known: Mapping[str, str]) -> list[str]:
    return [f"{NAME}-{value}", f"{NAME}-{value}s"]


@server.completion("number", resource=f"{NAME}://item/{{number}}")
def numbers(value: str, known: Mapping[str, str]) -> list[str]:
    return [f"{value}{digit}" for digit in range(3)]


@server.tool(read_only=True)
def get_name() -> str:
    return NAME


@server.tool()
def add_prompt(name: str) -> str:
    """Add a prompt."""
    server.prompt(name)(lambda: f"{name} of {NAME}")
    return "added"


@server.tool()
def change(text: str) -> str:
    """Change the file."""
    contents["text"] = text
    server.resource_updated("file:///a")
    return "changed"


@server.tool(read_only=True)
def get_link() -> list[Any]:
    contents = ResourceContents("file:///a", "text/plain", "here")
    return [ResourceLink(uri="file:///a", name="a"), EmbeddedResource(resource=contents)]


@server.tool(read_only=True)
def get_watched() -> list[str]:
    return sorted(uri for uri, _ in server.subscribers.watched())


@server.tool()
def stop() -> None:
    os._exit(3)


@server.tool()
async def tell(context: RequestContext, steps: int = 3) -> str:
    """Log and report progress."""
    for number in range(steps):
        await context.log("info", {"step": number}, "shelf")
        await context.progress(number, steps, f"step {number}")
    return "told"


if __name__ == "__main__":
    server.run()

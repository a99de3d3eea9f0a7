"""A server with more than tools: resources, a template, a prompt, completion, logging, a question to the user.

`python docs/examples/features_server.py` serves it over stdio. Every function works in both eras of the protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import msgspec

from delta_actors.mcp import DeltaServer, RequestContext, UnknownResource, elicit

server = DeltaServer("notes", "1.0", instructions="Keeps notes by name.")
notes = {"shopping": "tea, cake", "garden": "water the beans"}


class Note(msgspec.Struct):
    """What a tool returns as a Struct is structured content, and the tool shows its schema."""

    name: str
    text: str


@server.resource("notes://all", mime_type="application/json")
def all_notes() -> list[str]:
    """The names of all notes."""
    return sorted(notes)


@server.resource("notes://note/{name}", mime_type="text/plain")
def note(name: str) -> str:
    """One note. The function takes the template's variables."""
    if name not in notes:
        raise UnknownResource(f"notes://note/{name}")
    return notes[name]


@server.completion("name", resource="notes://note/{name}")
def names(value: str, known: Mapping[str, str]) -> list[str]:  # noqa: ARG001 - the other arguments are not needed
    """Suggest names that begin with the text so far."""
    return [name for name in sorted(notes) if name.startswith(value)]


@server.prompt()
def summarize(style: Annotated[str, msgspec.Meta(description="short or long")] = "short") -> str:
    """Ask for a summary of all notes."""
    return f"Write a {style} summary of these notes:\n" + "\n".join(notes.values())


@server.tool(destructive=True)
async def delete(name: str, context: RequestContext) -> Note:
    """Delete a note after asking the user, and tell subscribers that it changed."""
    form = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    (answer,) = await context.ask(elicit(f"Delete {name}?", form, key="sure"))
    if not json.loads(answer).get("content", {}).get("sure"):
        return Note(name, notes.get(name, ""))
    await context.log("info", f"{name} was deleted")
    removed = Note(name, notes.pop(name, ""))
    server.resource_updated("notes://all")
    return removed


if __name__ == "__main__":
    server.run()

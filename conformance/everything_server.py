"""The server under test: everything that the official conformance suite asks a server to expose.

Usage: everything_server.py stdio | http PORT [--era legacy | modern]. Over HTTP it prints its URL as the first line.
With an era it speaks that one alone.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import trio

if not __package__:  # started by its path
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance import everything_rounds, everything_tasks, everything_tools
from delta_actors.mcp import (
    DeltaServer,
    EmbeddedResource,
    HttpSettings,
    PromptMessage,
    ResourceContents,
    ServerSettings,
    TextContent,
    serve_http,
)
from delta_protocol.mcp.versions import Era

BOTH: tuple[Era, ...] = ("legacy", "modern")
ALONE: dict[str, tuple[Era, ...]] = {"legacy": ("legacy",), "modern": ("modern",)}
SIMPLE = "This is a simple prompt for testing."


def build(eras: tuple[Era, ...] = BOTH) -> DeltaServer:
    """Return the server with everything on it, speaking these eras."""
    server = DeltaServer(
        "delta-everything",
        "1.0.0",
        title="Everything",
        instructions="For conformance tests.",
        settings=ServerSettings(eras=eras),
    )
    everything_tools.add_content(server)
    everything_tools.add_reports(server)
    everything_tools.add_legacy_questions(server)
    everything_rounds.add_rounds(server)
    everything_rounds.add_states(server)
    everything_tasks.add_tasks(server)
    everything_tasks.add_asking_tasks(server)
    _add_resources(server)
    _add_prompts(server)
    return server


def _add_resources(server: DeltaServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text that never changes."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image that never changes."""
        return everything_tools.PNG

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched_resource() -> str:
        """A text to subscribe to."""
        return "This resource can be watched."

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> dict[str, object]:  # noqa: A002 - the template's variable
        """Data by id."""
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def _add_prompts(server: DeltaServer) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """One message without arguments."""
        return SIMPLE

    @server.prompt()
    def test_prompt_with_arguments(
        arg1: Annotated[str, msgspec.Meta(description="First test argument")],
        arg2: Annotated[str, msgspec.Meta(description="Second test argument")],
    ) -> str:
        """One message with both arguments in it."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(
        resourceUri: Annotated[str, msgspec.Meta(description="What to embed")],  # noqa: N803 - the suite's name
    ) -> list[PromptMessage]:
        """A resource and a request to process it."""
        resource = ResourceContents(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [
            PromptMessage("user", EmbeddedResource(resource=resource)),
            PromptMessage("user", TextContent(text="Please process the embedded resource above.")),
        ]

    @server.prompt()
    def test_prompt_with_image() -> list[PromptMessage]:
        """An image and a request to look at it."""
        return [
            PromptMessage("user", everything_tools.IMAGE),
            PromptMessage("user", TextContent(text="Please analyze the image above.")),
        ]

    @server.completion("arg1", prompt="test_prompt_with_arguments")
    def suggest(value: str, known: Mapping[str, str]) -> list[str]:  # noqa: ARG001 - the interface
        return [word for word in ("paris", "park", "party") if word.startswith(value)]


async def serve(port: int, eras: tuple[Era, ...] = BOTH, host: str = "127.0.0.1") -> None:
    """Serve over HTTP until interrupted; 0 is any free port."""
    settings = HttpSettings(key=secrets.token_bytes(32))
    with socket.create_server((host, port)) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, build(eras), [listener], settings, trio.Event())
            print(f"http://localhost:{listener.getsockname()[1]}{settings.path}", flush=True)


def main(arguments: list[str]) -> int:
    """Run the transport that the first argument names; 64 for a wrong command line."""
    eras = BOTH
    if arguments[-2:-1] == ["--era"] and arguments[-1] in ALONE:
        arguments, eras = arguments[:-2], ALONE[arguments[-1]]
    match arguments:
        case ["stdio"]:
            build(eras).run()
        case ["http", port] if port.isdigit():
            trio.run(serve, int(port), eras)
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

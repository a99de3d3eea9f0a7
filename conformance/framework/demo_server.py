"""The server under test: six tools, over stdio or HTTP.

usage: python -m conformance.framework.demo_server stdio
       python -m conformance.framework.demo_server http PORT
           [--max-body BYTES] [--deadline SECONDS] [--origin ORIGIN]... [--no-local-origins] [--rate REQUESTS]
           [--issuer URL --jwks URL --resource URL]

PORT 0 is any free one; the URL is the first line on stdout. `run_command` runs nothing: it knows `echo TEXT`, `sleep
SECONDS` and `count STEPS`, which tells its progress.
"""

# ruff: noqa: ARG001 - the tools have arguments for the length of their schemas alone

from __future__ import annotations

import argparse
import secrets
import socket
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import trio
from msgspec import Meta

from delta_actors.mcp import (
    Access,
    DeltaServer,
    Disclosure,
    HttpSettings,
    RequestContext,
    ResourceSettings,
    ServerSettings,
    TrustedIssuer,
    oauth_access,
    serve_http,
)
from delta_protocol.codecs.negotiate import Format

NAME = "six-tools"
FAILURE = "intentional demo failure"
ROWS = (
    {"title": "Getting started", "path": "docs/start.md", "score": 0.92},
    {"title": "Configuration", "path": "docs/configuration.md", "score": 0.71},
    {"title": "Changes", "path": "docs/changes.md", "score": 0.38},
)
FOLDER = ("README.md", "docs", "src", "tests", "pyproject.toml")


@dataclass
class Written:
    """What became of a file."""

    written: bool
    path: str
    bytes: int


def build(settings: ServerSettings | None = None) -> DeltaServer:
    """Return the server, which shows its tools a few at a time to all who know how to ask."""
    server = DeltaServer(NAME, "1.0.0", settings=settings, disclosure=Disclosure(delta_mcp=True))
    _add_files(server)
    _add_others(server)
    return server


def _add_files(server: DeltaServer) -> None:
    @server.tool(summary="Read a file of the workspace", read_only=True)
    def read_file(
        path: Annotated[str, Meta(description="The file, absolute or from the workspace's root; links are followed")],
        encoding: Annotated[Literal["utf8", "base64", "hex"], Meta(description="How bytes become text")] = "utf8",
        start_line: Annotated[int, Meta(ge=1, description="The first line that is wanted, counted from 1")] = 1,
        end_line: Annotated[int | None, Meta(description="The last line that is wanted; without it the file's")] = None,
    ) -> str:
        """Read a text or binary file of the workspace, or the part of it between two lines."""
        return f"lines {start_line} to {end_line or 'the end'} of {path} as {encoding}"

    @server.tool(summary="Write a file of the workspace", destructive=True)
    def write_file(
        path: Annotated[str, Meta(description="Where it goes; the folder must exist unless create_dirs is given")],
        content: Annotated[str, Meta(description="The whole new content; what was there before is replaced")],
        encoding: Annotated[Literal["utf8", "base64"], Meta(description="How the content is to be read")] = "utf8",
        create_dirs: Annotated[bool, Meta(description="Whether missing folders are made first")] = False,
        mode: Annotated[int, Meta(description="The permission bits of a new file, as a decimal number")] = 420,
    ) -> Written:
        """Write a file of the workspace as a whole, or make a new one."""
        return Written(True, path, len(content.encode()))

    @server.tool(summary="List a folder of the workspace", read_only=True)
    def list_dir(
        path: Annotated[str, Meta(description="The folder; the workspace's root where there is none")] = ".",
        recursive: Annotated[bool, Meta(description="Whether folders inside are listed too; may be very long")] = False,
        include: Annotated[list[str] | None, Meta(description="Only files that one of these patterns fits")] = None,
        exclude: Annotated[list[str] | None, Meta(description="No files that one of these patterns fits")] = None,
    ) -> list[str]:
        """List the files and folders of a folder by their names, in no certain order."""
        return list(FOLDER)


def _add_others(server: DeltaServer) -> None:
    @server.tool(summary="Search the documents of the workspace", read_only=True)
    def search(
        query: Annotated[str, Meta(description="What to look for: words, AND, OR, NOT, and phrases in quotes")],
        limit: Annotated[int, Meta(ge=1, le=100, description="How many results are wanted at most")] = 10,
        page: Annotated[int, Meta(ge=1, description="Which page of the results is wanted, counted from 1")] = 1,
        since: Annotated[
            Literal["day", "week", "month", "year", "all"], Meta(description="Only what changed within this time")
        ] = "all",
        language: Annotated[str, Meta(description="Only documents in this language, by its ISO 639-1 code")] = "",
        tags: Annotated[list[str] | None, Meta(description="Only documents that have all of these tags")] = None,
    ) -> list[dict[str, Any]]:
        """Search the full text of all documents and return the best results with their scores."""
        return [dict(row) for row in ROWS[:limit]]

    @server.tool(summary="Run a command and return its output", open_world=True)
    async def run_command(
        context: RequestContext,
        command: Annotated[str, Meta(description="The command: echo TEXT, sleep SECONDS or count STEPS")],
        cwd: Annotated[str, Meta(description="The folder to run it in; the workspace's root by default")] = ".",
        environment: Annotated[dict[str, str] | None, Meta(description="Variables beside those of the server")] = None,
        shell: Annotated[Literal["sh", "bash", "none"], Meta(description="What reads the command")] = "sh",
    ) -> dict[str, Any]:
        """Run a command to its end and return what it wrote and its exit code."""
        word, _, rest = command.partition(" ")
        if word == "sleep":
            await trio.sleep(float(rest))
        elif word == "count":
            for step in range(1, int(rest) + 1):
                await context.progress(step, int(rest))
        return {"stdout": rest if word == "echo" else "", "stderr": "", "exitCode": 0}

    @server.tool(summary="Fail, to try how errors are shown")
    def fail() -> str:
        """Raise an error, so that clients can try how they show it."""
        raise ValueError(FAILURE)


async def serve(options: argparse.Namespace) -> None:
    """Serve over HTTP until interrupted."""
    access: Access | None = None
    if options.issuer:
        access = oauth_access(ResourceSettings(options.resource, [TrustedIssuer(options.issuer, options.jwks)]))
    settings = HttpSettings(
        key=secrets.token_bytes(32),
        max_body=options.max_body,
        origins=tuple(options.origin),
        local_origins=not options.no_local_origins,
        rate_limit=options.rate,
        formats=(Format.COMPACT, Format.CBOR),
    )
    server = build(ServerSettings(deadline=options.deadline))
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, server, [listener], settings, trio.Event(), access)
            print(f"http://127.0.0.1:{listener.getsockname()[1]}{settings.path}", flush=True)


def main() -> None:
    """Run the transport that the command line names."""
    parser = argparse.ArgumentParser(prog="demo_server")
    transports = parser.add_subparsers(dest="transport", required=True)
    transports.add_parser("stdio")
    http = transports.add_parser("http")
    http.add_argument("port", type=int)
    http.add_argument("--max-body", type=int, default=4 << 20)
    http.add_argument("--deadline", type=float, default=60.0)
    http.add_argument("--origin", action="append", default=[])
    http.add_argument("--no-local-origins", action="store_true")
    http.add_argument("--rate", type=int, default=0, help="requests that a client may send in a minute")
    for name in ("--issuer", "--jwks", "--resource"):
        http.add_argument(name, default="")
    options = parser.parse_args()
    if options.transport == "stdio":
        build().run()
    else:
        trio.run(serve, options)


if __name__ == "__main__":
    main()

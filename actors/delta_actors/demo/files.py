"""The demo connector `files`: one directory, read-only.

python -m delta_actors.demo.files --root DIRECTORY
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import trio
from msgspec import UNSET, Meta, Struct, UnsetType

from delta_actors.demo.jail import Jail
from delta_actors.demo.served import READS, BlockingTool, BlockingTools
from delta_actors.mcp import DeltaServer

Where = Annotated[str, Meta(description="relative to the shared directory, with /")]


class Entry(Struct):
    """One entry of a directory; `size` in bytes, of files only."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size: int | None


class Listing(Struct):
    """A directory's entries, by name."""

    entries: list[Entry]


class Text(Struct):
    """A file's text."""

    path: str
    text: str


class Found(Struct):
    """Paths of the files found; `more` says that the search ended early."""

    paths: list[str]
    more: bool


class ListDirectory(Struct, forbid_unknown_fields=True):
    """Arguments of `list_directory`."""

    path: Where = ""


class ReadFile(Struct, forbid_unknown_fields=True):
    """Arguments of `read_file`."""

    path: Where


class SearchFiles(Struct, forbid_unknown_fields=True):
    """Arguments of `search_files`."""

    pattern: Annotated[str, Meta(description="of the name, with * and ?", min_length=1)]
    path: Where = ""
    text: Annotated[str, Meta(description="only files that hold this text", min_length=1)] | UnsetType = UNSET


def tools(jail: Jail) -> list[BlockingTool]:
    """Return the connector's three tools over `jail`."""
    return [
        BlockingTool(
            "list_directory",
            "List a directory",
            "Return the entries of a directory. Links are listed, never followed.",
            ListDirectory,
            Listing,
            READS,
            lambda given: {"entries": jail.list_directory(given.path)},
        ),
        BlockingTool(
            "read_file",
            "Read a file",
            "Return the text of a file.",
            ReadFile,
            Text,
            READS,
            lambda given: {"path": given.path, "text": jail.read_file(given.path)},
        ),
        BlockingTool(
            "search_files",
            "Search files",
            "Return the paths of the files below a directory whose names match a pattern.",
            SearchFiles,
            Found,
            READS,
            lambda given: _found(*jail.search(**msgspec.to_builtins(given))),
        ),
    ]


def _found(paths: list[str], more: bool) -> dict[str, Any]:
    return {"paths": paths, "more": more}


def main() -> None:
    """Serve one client on stdin and stdout."""
    parser = argparse.ArgumentParser(prog="delta_actors.demo.files", description="One directory, read-only, over MCP.")
    parser.add_argument("--root", type=Path, required=True, help="the directory to show")
    jail = Jail(parser.parse_args().root)
    try:
        trio.run(DeltaServer("files", "1.0.0", title="Files", tools=BlockingTools(tools(jail))).run_stdio)
    finally:
        jail.close()


if __name__ == "__main__":
    main()

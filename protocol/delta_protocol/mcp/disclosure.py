"""Progressive disclosure: an index of a server's tools, definitions on demand, search (extension, spec 1.17, 6.3).

`tools/list` stays what it is and complete; these are methods beside it, in both eras. An entry's digest is over the
definition as the same client would list it, so it tells whether a definition that it keeps is still right.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.types import json_object

PREFIX = "io.github.delta-supervisor"
EXTENSION = f"{PREFIX}/progressive-tools"
INDEX = f"{PREFIX}.tools/index"
DESCRIBE = f"{PREFIX}.tools/describe"
SEARCH = f"{PREFIX}.tools/search"
VERSION = 1

MAX_DESCRIBE = 64
MAX_SUMMARY = 60
"""Characters (code points) of a summary."""
_CACHED = 4096

FORMATS = ("json", "signature")
"""How a definition may be described."""

_HINTS = (
    ("readOnlyHint", True, "read-only"),
    ("destructiveHint", True, "destructive"),
    ("destructiveHint", False, "non-destructive"),
    ("idempotentHint", True, "idempotent"),
    ("openWorldHint", True, "open-world"),
)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool in the index. `hints` are those of its annotations that say something, as words."""

    name: str
    title: str | None = None
    summary: str | None = None
    hints: tuple[str, ...] = ()
    digest: str | None = None

    @property
    def line(self) -> str:
        """The entry for a reader: `name: summary [hints]`."""
        told = f": {self.summary or self.title}" if self.summary or self.title else ""
        return f"{self.name}{told}" + (f" [{', '.join(self.hints)}]" if self.hints else "")


class Described(msgspec.Struct, frozen=True):
    """What `describe` found: definitions' JSON texts, names whose digest still holds, names that nobody has."""

    tools: tuple[Json, ...] = ()
    unchanged: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def settings(max_describe: int) -> dict[str, Any]:
    """Return what a server declares under `EXTENSION`."""
    return {"version": VERSION, "index": True, "describe": True, "search": True, "maxDescribe": max_describe}


def offered_describe(capabilities: Json) -> int:
    """Return how many names a server describes at once, 0 where it does not offer the extension."""
    try:
        declared = json_object(msgspec.json.decode(capabilities))
    except (msgspec.DecodeError, RecursionError):
        return 0
    for member in ("extensions", "experimental"):
        found = json_object(declared.get(member)).get(EXTENSION)
        if isinstance(found, dict):
            most = json_object(found).get("maxDescribe", MAX_DESCRIBE)
            return most if isinstance(most, int) and most > 0 else MAX_DESCRIBE
    return 0


def name_of(tool: Json) -> str:
    """Return a definition's name, empty where it has none."""
    name = _members(tool).get("name")
    return name if isinstance(name, str) else ""


def digest_of(tool: Json) -> str:
    """Return the first 16 hexadecimal digits of the sha256 of a definition's canonical text."""
    return _digest(bytes(tool))


def entry_of(tool: Json, summary: str | None = None, *, digest: bool = True) -> Entry:
    """Return a definition's entry. Without a summary the description's first line stands for it, cut where long."""
    members = _members(tool)
    title, description = members.get("title"), members.get("description")
    annotations = json_object(members.get("annotations"))
    if not isinstance(title, str):
        title = annotations.get("title")
    return Entry(
        name_of(tool),
        title if isinstance(title, str) else None,
        summary if summary is not None else first_line(description if isinstance(description, str) else ""),
        tuple(word for key, value, word in _HINTS if annotations.get(key) is value),
        digest_of(tool) if digest else None,
    )


def first_line(description: str) -> str | None:
    """Return the first line, cut to `MAX_SUMMARY` characters; None where there is none."""
    line = description.strip().partition("\n")[0].strip()
    return (line if len(line) <= MAX_SUMMARY else f"{line[: MAX_SUMMARY - 1].rstrip()}…") or None


def search(tools: Sequence[Json], words: str, limit: int) -> list[Json]:
    """Return the definitions that are about the words, best first; equally good ones in the list's order."""
    from delta_protocol.ranking import scores

    found = scores([_words(bytes(tool)) for tool in tools], words)
    best = sorted(range(len(tools)), key=lambda at: -found[at])
    return [tools[at] for at in best[:limit] if found[at] > 0]


def describe(tools: Mapping[str, Json], names: Iterable[str], known: Mapping[str, str]) -> Described:
    """Return the named definitions; `known` are digests by name of what the asker has.

    Raises `RpcError` -32602 where there is none of them.
    """
    wanted = dict.fromkeys(names)
    unknown = tuple(name for name in wanted if name not in tools)
    if wanted and len(unknown) == len(wanted):
        data = msgspec.json.encode({"unknown": unknown})
        raise RpcError(INVALID_PARAMS, f"Unknown tool: {', '.join(unknown)}"[:500], data)
    found = {name: tools[name] for name in wanted if name in tools}
    unchanged = tuple(name for name, tool in found.items() if name in known and known[name] == digest_of(tool))
    return Described(tuple(tool for name, tool in found.items() if name not in unchanged), unchanged, unknown)


def all_unknown(error: RpcError) -> bool:
    """Whether an error is what `describe` raises where there is none of the named tools."""
    if error.code != INVALID_PARAMS or error.data is None:
        return False
    try:
        return "unknown" in json_object(msgspec.json.decode(error.data))
    except (msgspec.DecodeError, RecursionError):
        return False


def signature(tool: Json) -> dict[str, Any]:
    """Return a definition in its compact form: a line of types, the description and the hints.

    What the schema says of single parameters in prose is left out.
    """
    from delta_protocol.catalogue.notation import Level
    from delta_protocol.catalogue.signatures import line_of

    members = _members(tool)
    entry = entry_of(tool, digest=False)
    schema = msgspec.json.encode(members.get("inputSchema", {}))
    shown: dict[str, Any] = {"signature": line_of(entry.name, schema, Level.EXACT)}
    description = members.get("description")
    if isinstance(description, str):
        shown["description"] = description
    if entry.hints:
        shown["hints"] = entry.hints
    return shown


def described_result(found: Described, *, compact: bool) -> dict[str, Any]:
    """Return the members of a describe result, definitions whole or as their signatures."""
    shown = [signature(tool) if compact else Raw(tool) for tool in found.tools]
    body: dict[str, Any] = {"tools": shown}
    if found.unchanged:
        body["unchanged"] = found.unchanged
    if found.unknown:
        body["unknown"] = found.unknown
    return body


def _members(tool: Json) -> dict[str, Any]:
    return json_object(msgspec.json.decode(tool))


@lru_cache(maxsize=_CACHED)
def _digest(tool: bytes) -> str:
    from delta_protocol.codecs import exact_json

    return hashlib.sha256(exact_json.canonical(msgspec.json.decode(tool))).hexdigest()[:16]


@lru_cache(maxsize=_CACHED)
def _words(tool: bytes) -> Counter[str]:
    from delta_protocol.catalogue import schemas
    from delta_protocol.ranking import counted

    members = _members(tool)
    told = [text for text in (members.get("title"), members.get("description")) if isinstance(text, str)]
    return counted(name_of(tool), " ".join([*told, *schemas.properties(members.get("inputSchema", {}))]))

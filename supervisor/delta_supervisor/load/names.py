"""Which names a connector may have: it is a variable of every program and a ref of `delta_read`."""

from __future__ import annotations

import re
from collections.abc import Container

from delta_protocol.catalogue import names

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")

_CONTEXTUAL = names.word_set("async get of set")
"""Words that mean something only in their place: allowed, but no help to who reads a program."""
_REFS = names.word_set("services journal guide result search")

RESERVED = names.RESERVED | names.GLOBALS | _CONTEXTUAL | _REFS


def fault_of(name: str) -> str:
    """Return why `name` cannot be a connector's name, or an empty text."""
    if name in RESERVED:
        return "is a reserved name"
    if not _IDENTIFIER.match(name):
        return "is no JavaScript identifier"
    return ""


def identifier(name: str, taken: Container[str] = ()) -> str:
    """Return the nearest usable name: other characters become `_`, reserved names get `_server`, clashes a number."""
    base = re.sub(r"[^A-Za-z0-9_$]+", "_", name).strip("_") or "server"
    if base[0].isdigit():
        base = f"_{base}"
    if base in RESERVED:
        base = f"{base}_server"
    candidate, number = base, 2
    while candidate in taken:
        candidate, number = f"{base}_{number}", number + 1
    return candidate

"""Which names a connector may have: it is a variable of every program and a ref of `delta_read`."""

from __future__ import annotations

import re
from collections.abc import Container

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")

_WORDS = """
    break case catch class const continue debugger default delete do else enum export extends false finally for function
    if import in instanceof new null return super switch this throw true try typeof var void while with yield let static
    implements interface package private protected public await async of get set eval arguments undefined NaN Infinity
"""
_GLOBALS = """
    globalThis console fresh sleep recipes delta Array ArrayBuffer BigInt Boolean DataView Date Error Function JSON Map
    Math Number Object Promise Proxy Reflect RegExp Set String Symbol WeakMap WeakSet constructor prototype __proto__
    toString valueOf hasOwnProperty
"""
_REFS = "services journal guide result search"

RESERVED = frozenset(_WORDS.split()) | frozenset(_GLOBALS.split()) | frozenset(_REFS.split())


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

"""Tools grouped by the noun in their names (plan-apply-undo 5.7, steps 1 and 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from delta_protocol.catalogue.effects import READ_VERBS, STRONG_WRITES
from delta_protocol.catalogue.names import singular, word_set, words

PREFIX_SHARE = 0.8
"""A first word shared by this part of a connector's tools is the product's name, no part of any noun."""

ROLES: dict[str, str] = {
    "get": "get",
    "read": "get",
    "fetch": "get",
    "show": "get",
    "retrieve": "get",
    "describe": "get",
    "list": "list",
    "search": "search",
    "find": "search",
    "query": "search",
    "create": "create",
    "new": "create",
    "insert": "create",
    "add": "add",
    "update": "update",
    "edit": "update",
    "modify": "update",
    "delete": "delete",
    "remove": "remove",
}

_VERBS = READ_VERBS | STRONG_WRITES | set(ROLES)
_STOP_WORDS = word_set("by id ids for of all my multiple batch details detail the a an")


class Named(NamedTuple):
    """A tool's name taken apart. `noun` is in the singular, the words before the verb in front of it."""

    tool: str
    role: str
    noun: tuple[str, ...]


def shared_prefix(tools: Iterable[str]) -> str | None:
    """Return the first word that nearly all tools share, if it is no verb."""
    first = [parts[0] for tool in tools if len(parts := words(tool)) > 1]
    if len(first) < 3:
        return None
    word, count = Counter(first).most_common(1)[0]
    return word if word not in _VERBS and count >= PREFIX_SHARE * len(first) else None


def take_apart(tool: str, prefix: str | None) -> Named | None:
    """Return the parts of a tool's name, or None where it has no verb with a role or no noun."""
    parts = words(tool)
    if prefix and parts[:1] == (prefix,):
        parts = parts[1:]
    place = next((index for index, part in enumerate(parts) if part in _VERBS), None)
    if place is None or parts[place] not in ROLES:
        return None
    role, rest = ROLES[parts[place]], [part for part in parts[place + 1 :] if part not in _STOP_WORDS]
    listed = role == "get" and rest[-1:] == ["list"]
    if listed:
        rest = rest[:-1]
    before = list(parts[:place])
    if not rest and not before:
        return None
    noun = [*before, *rest]
    last = singular(noun[-1])
    if role == "get" and (listed or (rest and last != noun[-1])):
        role = "list"
    return Named(tool, role, (*noun[:-1], last))


def families(tools: Iterable[str]) -> dict[tuple[str, ...], list[Named]]:
    """Return the tools with a noun and a role, by noun, in the order of the listing."""
    names = list(tools)
    prefix = shared_prefix(names)
    found: dict[tuple[str, ...], list[Named]] = {}
    for name in names:
        named = take_apart(name, prefix)
        if named:
            found.setdefault(named.noun, []).append(named)
    return found

"""Tool names taken apart into words, and made into JavaScript identifiers (three-tools 3, acceptance 22)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_$]+")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


RESERVED = word_set(
    "arguments await break case catch class const continue debugger default delete do else enum eval export extends "
    "false finally for function if implements import in instanceof interface let new null package private protected "
    "public return static super switch this throw true try typeof var void while with yield "
    # Names that every object, function or awaited value already has a meaning for.
    "then constructor prototype __proto__ hasOwnProperty isPrototypeOf toString toLocaleString toJSON valueOf"
)

GLOBALS = word_set(
    "Array ArrayBuffer Atomics BigInt Boolean DataView Date Error Function Infinity Intl Iterator JSON Map Math "
    "NaN Number Object Promise Proxy RangeError Reflect RegExp Set String Symbol SyntaxError TypeError URIError "
    "WeakMap WeakRef WeakSet console decodeURI decodeURIComponent delta encodeURI encodeURIComponent escape fresh "
    "globalThis isFinite isNaN parseFloat parseInt recipes sleep undefined unescape"
)
"""What a program already finds under these names; a connector's namespace must not hide it."""

_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman", "indices": "index"}
_UNCHANGED = ("ss", "us", "is", "news", "series")


def words(name: str) -> tuple[str, ...]:
    """Return the lower-case words of a name in snake, kebab, camel or dotted spelling."""
    return tuple(word.lower() for word in _WORD.findall(name))


def singular(word: str) -> str:
    """Return the singular of an English noun as names use it; a word that is not known to be a plural stays."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if not word.endswith("s") or word.endswith(_UNCHANGED) or len(word) < 3:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def identifier(name: str) -> str:
    """Return the identifier nearest to `name`: other characters become ``_``, reserved words get a trailing one."""
    plain = _NOT_IDENTIFIER.sub("_", name) or "_"
    if plain[0].isdigit():
        plain = f"_{plain}"
    return f"{plain}_" if plain in RESERVED else plain


def aliases(names: Iterable[str], known: Mapping[str, str] | None = None, taken: Iterable[str] = ()) -> dict[str, str]:
    """Return name -> identifier, unique among all.

    `known` aliases stay as they are, so that a tool that appears later renames nobody. A name that is an identifier
    already keeps itself; of the others, the first that maps to an identifier gets it and the next are numbered from 2.
    `taken` identifiers are given to nobody.
    """
    result = dict(known or {})
    used = {*result.values(), *taken}
    wanted = [name for name in dict.fromkeys(names) if name not in result]
    for name in sorted(wanted, key=lambda name: identifier(name) != name):
        base = alias = identifier(name)
        number = 1
        while alias in used:
            number += 1
            alias = f"{base}_{number}"
        used.add(alias)
        result[name] = alias
    return result


def connector_alias(name: str) -> str:
    """Return the identifier of a connector's namespace in programs."""
    plain = identifier(name)
    return f"{plain}_" if plain in GLOBALS else plain


def namespaces(connectors: Iterable[str]) -> dict[str, str]:
    """Return connector name -> identifier of its namespace, unique, clashes numbered in the given order."""
    result: dict[str, str] = {}
    for name in connectors:
        base = alias = connector_alias(name)
        number = 1
        while alias in result.values():
            number += 1
            alias = f"{base}_{number}"
        result[name] = alias
    return result

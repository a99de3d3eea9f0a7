"""Calls in words: what they do, for the person who approves and for the answer. Made from data, never by a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from delta_protocol.changes.binding import Bound
from delta_protocol.changes.holes import Filler, Tree
from delta_protocol.changes.images import field_of, is_known
from delta_protocol.changes.model import ResultRef, Text
from delta_protocol.changes.redaction import MARK, is_secret
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object

_LONGEST = 60


def article(noun: str) -> str:
    """Return the noun with its indefinite article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def short(value: Tree, name: str = "") -> str:
    """Return a value in at most `_LONGEST` characters; a hole as `⟨result of call 2⟩`."""
    if name and is_secret(name):
        return MARK
    if isinstance(value, Filler):
        return "".join(_part(part) for part in value.parts)
    if isinstance(value, str):
        plain = value.isprintable() and not any(character in value for character in ' "') and value != ""
        text = value if plain else exact_json.encode(value).decode()
    else:
        text = _tree_text(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _part(part: ResultRef | Text) -> str:
    return part.text if isinstance(part, Text) else f"⟨result of call {part.write}⟩"


def _tree_text(value: Tree) -> str:
    if isinstance(value, Filler):
        return short(value)
    if is_object(value):
        return "{" + ", ".join(f"{key}: {short(item, key)}" for key, item in value.items()) + "}"
    if is_array(value):
        return "[" + ", ".join(short(item) for item in value) + "]"
    return exact_json.encode(value).decode()


def of_bound(bound: Bound, image: Any) -> str:  # noqa: ANN401 - a JSON value, NOTHING or UNKNOWN
    """Return what a recognised call does, with before → after where the image is known."""
    noun, key = bound.collection.noun, short(bound.key)
    match bound.operation:
        case "update" | "upsert":
            return f"{key}: {_fields(bound.fields, image)}" if bound.fields else f"{key}: update"
        case "edit":
            return f"{key}: {short(bound.rest)}" if bound.rest else f"{key}: edit"
        case "create":
            return "; ".join(f"new {noun} {_item(item)}" for item in bound.items)
        case "delete":
            gone = [short(item) for item in bound.keys] or [_item(item) for item in bound.items]
            return f"DELETE {noun} {', '.join(gone)}"
        case "add":
            return f"{key}: {_element(bound)} +{', +'.join(_item(item) for item in bound.items)}"
        case "remove":
            return f"{key}: {_element(bound)} -{', -'.join(short(item) for item in bound.element_keys)}"
        case _:
            names = ", ".join(short(item) for item in bound.element_keys)
            return f"{key}: {_element(bound)} {names}: {_item(bound.fields)}"


def _element(bound: Bound) -> str:
    return bound.elements.field if bound.elements is not None else ""


def _item(item: dict[str, Tree]) -> str:
    if len(item) == 1:
        ((name, value),) = item.items()
        return short(value, name)
    return short(dict(item))


def _fields(fields: dict[str, Tree], image: Any) -> str:  # noqa: ANN401
    return ", ".join(_change(name, value, image) for name, value in fields.items())


def _change(name: str, value: Tree, image: Any) -> str:  # noqa: ANN401
    label = name or "content"
    had, before = field_of(image, name) if is_known(image) else (False, None)
    if is_secret(name):
        return f"{label} → {MARK}"
    if had and is_array(before) and is_array(value):
        return f"{label} {_list_change(before, value)}"
    if had and isinstance(before, str) and isinstance(value, str) and max(len(before), len(value)) > _LONGEST:
        return f"{label} {_text_change(before, value)}"
    return f"{label} {short(before)} → {short(value)}" if had else f"{label} → {short(value)}"


def _list_change(before: list[Any], after: list[Tree]) -> str:
    added = [item for item in after if item not in before]
    gone = [item for item in before if item not in after]
    if not added and not gone:
        return f"{short(before)} → {short(after)}"
    return " ".join([*(f"+{short(item)}" for item in added), *(f"-{short(item)}" for item in gone)])


def _text_change(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    plus = _surplus(new, old)
    minus = _surplus(old, new)
    first = next((line for line in new if line not in set(old)), "")
    return f"+{plus} -{minus} lines" + (f", first: {short(first)}" if first.strip() else "")


def _surplus(these: Iterable[str], those: Iterable[str]) -> int:
    known = set(those)
    return sum(1 for line in these if line not in known)


def of_unbound(arguments: Tree) -> str:
    """Return an unrecognised call's arguments in words."""
    return (
        short(arguments)
        if not is_object(arguments)
        else ", ".join(f"{name}: {short(value, name)}" for name, value in arguments.items())
    )

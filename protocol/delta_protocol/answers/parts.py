"""A part of a JSON value: a path, then a slice. Shared by stored results and the references that read them."""

from __future__ import annotations

from typing import Any

from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import NotFound

Path = tuple[str | int, ...]

_SHOWN = 12


def spell(path: Path) -> str:
    """Return the path as it is written in a reference: `.rows[3].name`; a key that needs it is quoted."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if step.isidentifier() else f"[{_quoted(step)}]"
        for step in path
    )


def part(value: Any, path: Path, start: int | None = None, end: int | None = None) -> Any:  # noqa: ANN401 - any JSON value
    """Return what `path` leads to, cut to `[start:end]` if either is given: characters of a string, items of an
    array, or keys of an object in their order.

    Negative positions count from the end. Raises `NotFound`, saying what is there instead.
    """
    for depth, step in enumerate(path):
        value = _step(value, step, path[:depth])
    if start is None and end is None:
        return value
    if isinstance(value, str) or is_array(value):
        return value[start:end]
    if is_object(value):
        return {key: value[key] for key in list(value)[start:end]}
    raise NotFound(f"{_where(path)} is {_kind(value)}: only text, arrays and objects have slices")


def _step(value: Any, step: str | int, at: Path) -> Any:  # noqa: ANN401 - any JSON value
    if is_object(value):
        if str(step) in value:
            return value[str(step)]
        raise NotFound(f"{_where(at)} has no {step!r}; it has {_some(list(value))}")
    if is_array(value):
        if isinstance(step, int) and -len(value) <= step < len(value):
            return value[step]
        raise NotFound(f"{_where(at)} is an array of {len(value)} items; there is no {step!r}")
    raise NotFound(f"{_where(at)} is {_kind(value)}; there is nothing below it")


def _where(path: Path) -> str:
    return spell(path) or "the result"


def _kind(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if is_object(value):
        return "an object"
    if is_array(value):
        return f"an array of {len(value)} items"
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    return "null" if value is None else "true or false" if isinstance(value, bool) else "a number"


def _some(keys: list[str]) -> str:
    shown = ", ".join(keys[:_SHOWN])
    return f"{shown} and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else shown or "no keys"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""From a tree of plain values to the typed configuration, strictly: every fault names its path and the nearest name."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, Union, cast, get_args, get_origin

import msgspec

from delta_protocol.errors import Invalid
from delta_protocol.nearest import did_you_mean

Path = tuple[str, ...]


class ConfigurationError(Invalid):
    """The configuration cannot be used. `detail["path"]` is the dotted path of the value at fault."""


def dotted(path: Iterable[str]) -> str:
    """Return `path` as it is written in messages: `connectors.mail.url`."""
    return ".".join(path)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `" (did you mean x?)"`, or what is known when nothing is near."""
    names = sorted(known)
    if near := did_you_mean(word, names):
        return f" ({near})"
    return f" (known: {', '.join(names)})" if names else ""


class Shaper:
    """Converts trees of TOML, JSON or text values. `is_text(path)` says whether a value came as text (environment,
    `--set`) and is to be read leniently; `origin(path)` names where a value came from, for messages."""

    def __init__(self, is_text: Callable[[Path], bool], origin: Callable[[Path], str]) -> None:
        self._is_text = is_text
        self._origin = origin

    def struct(self, value: Any, kind: type[Any], path: Path) -> Any:  # noqa: ANN401 - kind decides
        """Return `value` (a table) as an instance of the msgspec Struct `kind`. Raises `ConfigurationError`."""
        if not isinstance(value, dict):
            raise self._error(path, f"must be a table, not {_describe(value)}")
        table = cast("dict[str, Any]", value)
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        for key in table:
            if key not in fields:
                raise self._error((*path, key), f"is no known key{nearest(key, fields)}")
        return kind(**{key: self.value(item, fields[key].type, (*path, key)) for key, item in table.items()})

    def value(self, value: Any, kind: Any, path: Path) -> Any:  # noqa: ANN401 - kind decides
        """Return `value` converted to the type expression `kind`. Raises `ConfigurationError`."""
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            return self._union(value, get_args(kind), kind, path)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(value, kind, path)
        if origin is dict and isinstance(value, dict):
            key_type, item_type = get_args(kind)
            return {
                self._leaf(key, key_type, (*path, key)): self.value(item, item_type, (*path, key))
                for key, item in cast("dict[str, Any]", value).items()
            }
        if origin in (tuple, list):
            return self._sequence(value, kind, origin, path)
        return self._leaf(value, kind, path)

    def _union(self, value: Any, options: tuple[Any, ...], kind: Any, path: Path) -> Any:  # noqa: ANN401
        for option in options:
            origin = get_origin(option)
            is_struct = isinstance(option, type) and issubclass(option, msgspec.Struct)
            if (isinstance(value, dict) and (is_struct or origin is dict)) or (
                isinstance(value, list) and origin in (list, tuple)
            ):
                return self.value(value, option, path)
        return self._leaf(value, kind, path)

    def _sequence(self, value: Any, kind: Any, origin: Any, path: Path) -> Any:  # noqa: ANN401
        if isinstance(value, str) and self._is_text(path):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list):
            raise self._error(path, f"must be a list, not {_describe(value)}")
        item = get_args(kind)[0]
        parts = cast("list[Any]", value)  # type: ignore[redundant-cast]
        return origin(self.value(part, item, (*path, str(index))) for index, part in enumerate(parts))

    def _leaf(self, value: Any, kind: Any, path: Path) -> Any:  # noqa: ANN401
        try:
            return msgspec.convert(value, kind, strict=not self._is_text(path))
        except msgspec.ValidationError as error:
            near = nearest(value, _members(kind)) if isinstance(value, str) else ""
            raise self._error(path, f"{_lower(str(error))}{near}") from None

    def _error(self, path: Path, problem: str) -> ConfigurationError:
        where = self._origin(path)
        return ConfigurationError(f"`{dotted(path)}` {problem}{f' [{where}]' if where else ''}", path=dotted(path))


def _members(kind: Any) -> list[str]:  # noqa: ANN401
    options = get_args(kind) or (kind,)
    members: list[str] = []
    for option in options:
        if isinstance(option, str):
            members.append(option)
        elif hasattr(option, "__members__"):
            members.extend(str(member.value) for member in option)
    return members


def _describe(value: Any) -> str:  # noqa: ANN401
    names = {
        "dict": "a table",
        "list": "a list",
        "str": "text",
        "bool": "a boolean",
        "int": "a number",
        "float": "a number",
    }
    kind = str(type(value).__name__)
    return names.get(kind, kind)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]

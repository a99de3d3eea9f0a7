"""Values with holes: what stands for results that exist only once earlier calls were made.

On the wire a `Value` is JSON with null at each hole and a list of what goes there. Here it is a tree: plain Python
values with a `Filler` as the leaf of every hole, so that trees can be compared, merged and walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from delta_protocol.changes.model import Hole, Path, ResultRef, Text, Value
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json

Tree = Any
"""A plain JSON value whose leaves may be `Filler`."""


@dataclass(frozen=True, slots=True)
class Filler:
    """What fills one hole: a lone `ResultRef` keeps its JSON type, several parts are joined as text."""

    parts: tuple[ResultRef | Text, ...]


def reference(write: int, path: Path = ()) -> Filler:
    """Return the filler for one part of one result."""
    return Filler((ResultRef(write, path),))


def unpack(value: Value) -> Tree:
    """Return the value as a tree. Raises `Invalid` for a hole that lies nowhere in the value."""
    tree = exact_json.decode(value.json)
    for hole in value.holes:
        tree = _put(tree, hole.path, Filler(hole.parts))
    return tree


def _put(tree: Tree, path: Path, leaf: Filler) -> Tree:
    if not path:
        return leaf
    at = tree
    try:
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = leaf
    except (LookupError, TypeError):
        raise Invalid(f"a placeholder stands at {path_text(path)}, where the value has nothing") from None
    return tree


def pack(tree: Tree) -> Value:
    """Return the tree as a `Value`."""
    holes: list[Hole] = []
    plain = _strip(tree, (), holes)
    return Value(exact_json.encode(plain), tuple(holes))


def _strip(tree: Tree, path: Path, holes: list[Hole]) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(tree, Filler):
        holes.append(Hole(path, tree.parts))
        return None
    if is_object(tree):
        return {key: _strip(item, (*path, key), holes) for key, item in tree.items()}
    if is_array(tree):
        return [_strip(item, (*path, index), holes) for index, item in enumerate(tree)]
    return tree


def fillers(tree: Tree) -> Iterator[Filler]:
    """Yield every filler in the tree."""
    if isinstance(tree, Filler):
        yield tree
    elif is_object(tree):
        for item in tree.values():
            yield from fillers(item)
    elif is_array(tree):
        for item in tree:
            yield from fillers(item)


def writes_of(tree: Tree) -> set[int]:
    """Return the numbers of all writes that the tree's fillers refer to."""
    return {part.write for filler in fillers(tree) for part in filler.parts if isinstance(part, ResultRef)}


def rename(tree: Tree, to: Callable[[ResultRef], ResultRef]) -> Tree:
    """Return the tree with every reference replaced by `to(reference)`."""
    if isinstance(tree, Filler):
        return Filler(tuple(to(part) if isinstance(part, ResultRef) else part for part in tree.parts))
    if is_object(tree):
        return {key: rename(item, to) for key, item in tree.items()}
    if is_array(tree):
        return [rename(item, to) for item in tree]
    return tree


def fill_tree(tree: Tree, results: Mapping[int, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the tree with every hole filled from decoded `results`. Raises `Invalid` for a part that is not there."""
    if isinstance(tree, Filler):
        return _resolve(tree, results)
    if is_object(tree):
        return {key: fill_tree(item, results) for key, item in tree.items()}
    if is_array(tree):
        return [fill_tree(item, results) for item in tree]
    return tree


def fill(value: Value, results: Mapping[int, Json]) -> Json:
    """Return the value's JSON with every hole filled.

    `results`: decoded results (JSON text) by call number. Raises `Invalid` naming the call and the part that is
    missing.
    """
    tree = unpack(value)
    decoded = {number: exact_json.decode(results[number]) for number in writes_of(tree) if number in results}
    return exact_json.encode(fill_tree(tree, decoded))


def _resolve(filler: Filler, results: Mapping[int, Any]) -> Any:  # noqa: ANN401 - any JSON value
    if len(filler.parts) == 1 and isinstance(filler.parts[0], ResultRef):
        return _part(filler.parts[0], results)
    return "".join(part.text if isinstance(part, Text) else _as_text(_part(part, results)) for part in filler.parts)


def _part(ref: ResultRef, results: Mapping[int, Any]) -> Any:  # noqa: ANN401 - any JSON value
    if ref.write not in results:
        raise Invalid(f"call {ref.write} has no result yet", call=ref.write)
    found, value = dig(results[ref.write], ref.path)
    if not found:
        raise Invalid(
            f"the result of call {ref.write} has nothing at {path_text(ref.path)}", call=ref.write, path=list(ref.path)
        )
    return value


def _as_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, str) else exact_json.encode(value).decode()


def dig(value: Any, path: Path) -> tuple[bool, Any]:  # noqa: ANN401 - any JSON value
    """Return (whether there is something at `path`, what)."""
    for step in path:
        if isinstance(step, int) and is_array(value):
            if not -len(value) <= step < len(value):
                return False, None
            value = value[step]
        elif is_object(value) and step in value:
            value = value[step]
        else:
            return False, None
    return True, value


def path_text(path: Path) -> str:
    """Return a path as people write it: `comments[0].body`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "its root"

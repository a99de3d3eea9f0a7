"""Replaying a program's mutations on our own copy of what it read: the worker's word about the result does not count.

Trees here are decoded JSON in which `wire.worker.Planned` leaves stand for what an earlier planned call will give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from delta_protocol.changes.model import Hole, Mutation, Op, Path, ResultRef, Text, Value
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json
from delta_protocol.wire.worker import Planned

Tree = Any


def replay(before: Json, mutations: Iterable[Mutation]) -> Value:
    """Return `before` with `mutations` applied in order.

    Raises `Invalid`, naming the mutation, where one does not fit the value (a missing path, an index out of range).
    """
    return split(replay_tree(exact_json.decode(before, what="before-image"), mutations))


def replay_tree(tree: Tree, mutations: Iterable[Mutation]) -> Tree:
    """`replay` on a decoded tree, which is changed in place and returned."""
    for number, mutation in enumerate(mutations, 1):
        try:
            tree = _apply(tree, mutation)
        except (KeyError, IndexError, TypeError):
            raise Invalid(
                f"mutation {number} ({mutation.op} at {list(mutation.path)}) does not fit the value",
                line=mutation.line,
            ) from None
    return tree


def _apply(tree: Tree, mutation: Mutation) -> Tree:
    value = None if mutation.value is None else join(mutation.value)
    match mutation.op:
        case Op.SET:
            parent = _step(tree, mutation.path[:-1])
            _set(parent, mutation.path[-1], value)
        case Op.DELETE:
            parent = _step(tree, mutation.path[:-1])
            if not isinstance(parent, dict):
                raise TypeError
            del parent[mutation.path[-1]]
        case Op.APPEND:
            _array(tree, mutation.path).extend(value or [])
        case Op.SPLICE:
            array = _array(tree, mutation.path)
            end = mutation.start + mutation.remove
            if not 0 <= mutation.start <= end <= len(array):
                raise IndexError
            array[mutation.start : end] = value or []
        case Op.REPLACE:
            if not isinstance(value, list):
                raise TypeError
            _array(tree, mutation.path)[:] = value
    return tree


def _set(parent: Tree, key: str | int, value: Tree) -> None:
    if exact_json.is_array(parent) and isinstance(key, int):
        if not 0 <= key <= len(parent):
            raise IndexError
        parent[key : key + 1] = [value]
    elif exact_json.is_object(parent) and isinstance(key, str):
        parent[key] = value
    else:
        raise TypeError


def _step(tree: Tree, path: Path) -> Tree:
    node = tree
    for key in path:
        if isinstance(key, int) != isinstance(node, list) or (isinstance(key, int) and key < 0):
            raise TypeError
        node = cast("dict[str | int, Tree]", node)[key]
    return node


def _array(tree: Tree, path: Path) -> list[Tree]:
    array = _step(tree, path)
    if not exact_json.is_array(array):
        raise TypeError
    return array


def at(tree: Tree, path: Path) -> Tree:
    """Return the part of a decoded tree at `path`. Raises `Invalid` where there is none."""
    try:
        return _step(tree, path)
    except (KeyError, IndexError, TypeError):
        raise Invalid(f"there is nothing at {list(path)}", path=list(path)) from None


def split(tree: Tree) -> Value:
    """Return the `Value` of a tree: null and a hole wherever a `Planned` leaf stands."""
    holes: list[Hole] = []
    plain = _split(tree, (), holes)
    return Value(exact_json.encode(plain), tuple(holes))


def _split(node: Tree, path: Path, holes: list[Hole]) -> Tree:
    if isinstance(node, Planned):
        holes.append(Hole(path, node.parts))
        return None
    if exact_json.is_object(node):
        return {key: _split(value, (*path, key), holes) for key, value in node.items()}
    if exact_json.is_array(node):
        return [_split(value, (*path, index), holes) for index, value in enumerate(node)]
    return node


def join(value: Value) -> Tree:
    """Return the tree of a `Value`: the reverse of `split`."""
    tree = exact_json.decode(value.json)
    for hole in value.holes:
        planned = Planned(hole.parts)
        if not hole.path:
            return planned
        _set(_step(tree, hole.path[:-1]), hole.path[-1], planned)
    return tree


def references(tree: Tree) -> Iterator[ResultRef]:
    """Yield every reference to a planned write's result within a tree."""
    if isinstance(tree, Planned):
        for part in tree.parts:
            if not isinstance(part, Text):
                yield part
    elif exact_json.is_object(tree):
        for value in tree.values():
            yield from references(value)
    elif exact_json.is_array(tree):
        for value in tree:
            yield from references(value)

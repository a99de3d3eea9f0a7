"""Replay of mutations against a model that does the same with Python's own lists and dictionaries."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.changes.model import Hole, Mutation, Op, ResultRef, Value
from delta_protocol.changes.recording import join, replay, split
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.wire.worker import Planned

LEAF = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=3)
NAME = st.sampled_from(["a", "b", "c"])
TREE = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3), max_leaves=8
)
ROOT = st.dictionaries(NAME, TREE, max_size=3)


def places(tree: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    found = [(path, tree)]
    if isinstance(tree, dict):
        items: Any = tree.items()
    elif isinstance(tree, list):
        items = enumerate(tree)
    else:
        return found
    for key, value in items:
        found += places(value, (*path, key))
    return found


def value_of(tree: Any) -> Value:
    return Value(exact_json.encode(tree))


@given(ROOT, st.data())
def test_replay_equals_doing_it(root: dict[str, Any], data: st.DataObject) -> None:
    model = copy.deepcopy(root)
    mutations: list[Mutation] = []
    for _ in range(data.draw(st.integers(0, 6))):
        path, node = data.draw(st.sampled_from([(p, n) for p, n in places(model) if isinstance(n, dict | list)]))
        if isinstance(node, dict):
            name = data.draw(NAME)
            if name in node and data.draw(st.booleans()):
                del node[name]
                mutations.append(Mutation(Op.DELETE, (*path, name)))
            else:
                node[name] = data.draw(TREE)
                mutations.append(Mutation(Op.SET, (*path, name), value_of(node[name])))
            continue
        items = data.draw(st.lists(TREE, max_size=2))
        operation = data.draw(st.sampled_from(["append", "splice", "replace", "set"]))
        if operation == "append":
            mutations.append(Mutation(Op.APPEND, path, value_of(items)))
            node.extend(copy.deepcopy(items))
        elif operation == "replace":
            mutations.append(Mutation(Op.REPLACE, path, value_of(items)))
            node[:] = copy.deepcopy(items)
        elif operation == "set" and node:
            index = data.draw(st.integers(0, len(node) - 1))
            node[index] = data.draw(TREE)
            mutations.append(Mutation(Op.SET, (*path, index), value_of(node[index])))
        else:
            start = data.draw(st.integers(0, len(node)))
            remove = data.draw(st.integers(0, len(node) - start))
            mutations.append(Mutation(Op.SPLICE, path, value_of(items), start, remove))
            node[start : start + remove] = copy.deepcopy(items)
    assert exact_json.decode(replay(exact_json.encode(root), mutations).json) == model


PATHS = st.lists(NAME | st.integers(-2, 3), max_size=3).map(tuple)


@given(ROOT, st.lists(st.tuples(st.sampled_from(Op), PATHS, TREE, st.integers(-1, 4), st.integers(-1, 4)), max_size=4))
def test_mutations_that_do_not_fit_are_refused_typed(root: Any, given_mutations: list[Any]) -> None:
    mutations = [Mutation(op, path, value_of(tree), start, remove) for op, path, tree, start, remove in given_mutations]
    with suppress(Invalid):
        replay(exact_json.encode(root), mutations)


@given(ROOT, st.data())
def test_values_with_holes_split_and_join(root: dict[str, Any], data: st.DataObject) -> None:
    planned = Planned((ResultRef(1, ("id",)),))
    root["a"] = [planned, {"x": planned, "y": data.draw(TREE)}]
    value = split(root)
    assert {hole.path for hole in value.holes} == {("a", 0), ("a", 1, "x")}
    assert join(value) == root


def test_a_hole_at_the_root() -> None:
    hole = Hole((), (ResultRef(2),))
    assert join(Value(b"null", (hole,))) == Planned(hole.parts)
    assert split(Planned(hole.parts)) == Value(b"null", (hole,))


def test_an_unfitting_mutation_names_its_line() -> None:
    with pytest.raises(Invalid) as caught:
        replay(b"{}", [Mutation(Op.APPEND, ("labels",), Value(b'["x"]'), line=3)])
    assert caught.value.detail["line"] == 3

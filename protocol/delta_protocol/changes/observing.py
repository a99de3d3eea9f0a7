"""How a call's effect is seen afterwards: the read that shows it, and the read that tells whether it was made at
all.
"""

from __future__ import annotations

from delta_protocol.catalogue.model import Collection
from delta_protocol.changes import binding as bind
from delta_protocol.changes.binding import Bound
from delta_protocol.changes.holes import Tree, pack, reference
from delta_protocol.changes.images import NOTHING, field_of, is_known, listed
from delta_protocol.changes.inverses import result_path
from delta_protocol.changes.model import ReadBack
from delta_protocol.changes.redaction import is_secret


def read_back(bound: Bound, number: int, image: object) -> ReadBack | None:
    """Return the read that shows what call `number` did, or None where nothing reads it."""
    match bound.operation:
        case "create":
            return _created(bound, number)
        case "upsert" if image is NOTHING:
            return _keyed(bound, _visible(bound.collection, bound.fields, image))
        case "update" | "upsert":
            return _keyed(bound, _visible(bound.collection, bound.fields, image))
        case "edit":
            return _keyed(bound, {}, changed=True)
        case "delete":
            return _gone(bound)
        case _:
            return _elements(bound, number)


def probe(bound: Bound, number: int, image: object) -> ReadBack | None:
    """Return the read that tells, after a lost reply, whether the call was made.

    Never refers to the call's own result, which is what was lost.
    """
    if bound.operation == "create" and not bound.keys:
        return listed(bound.collection, bound.items, absent=False)
    if bound.operation == "add":
        return _elements(bound, None)
    return read_back(bound, number, image)


def _visible(collection: Collection, fields: dict[str, Tree], image: object) -> dict[str, Tree]:
    # A parameter that no reader ever shows (`notify`) would be called different for ever.
    shown = {
        name: value
        for name, value in fields.items()
        if name == "" or name in collection.fields or not is_known(image) or field_of(image, name)[0]
    }
    return {name: value for name, value in shown.items() if not is_secret(name)}


def _keyed(bound: Bound, expect: dict[str, Tree], *, changed: bool = False) -> ReadBack | None:
    get = bound.collection.get
    if get is None or bound.key is None:
        return None
    return ReadBack(
        get.tool,
        pack(bind.key_arguments(get, bound.key)),
        bind.entity_path(get),
        expect=pack(expect),
        changed=changed,
    )


def _created(bound: Bound, number: int) -> ReadBack | None:
    collection, get = bound.collection, bound.collection.get
    if get is not None and len(bound.items) == 1:
        made = (*result_path(bound.binding, 0 if bound.binding.content else None), collection.key)
        key = bound.key if bound.key is not None else reference(number, made)
        expect = {name: value for name, value in bound.fields.items() if not is_secret(name)}
        return ReadBack(get.tool, pack(bind.key_arguments(get, key)), bind.entity_path(get), expect=pack(expect))
    if get is not None and get.many and bound.keys and get.key is not None:
        contains = tuple(("", pack(item)) for item in bound.items)
        return ReadBack(get.tool, pack({get.key: list(bound.keys)}), bind.list_path(get), contains=contains)
    return listed(collection, bound.items, absent=False)


def _gone(bound: Bound) -> ReadBack | None:
    collection, get = bound.collection, bound.collection.get
    if bound.items:
        return listed(collection, bound.items, absent=True)
    if get is not None and bound.key is not None:
        return ReadBack(get.tool, pack(bind.key_arguments(get, bound.key)), bind.entity_path(get), absent=True)
    return listed(collection, tuple({collection.key: key} for key in bound.keys), absent=True)


def _elements(bound: Bound, number: int | None) -> ReadBack | None:
    """`number`: the call whose result names the added elements; None for a probe, which has no result."""
    elements = bound.elements
    assert elements is not None
    read = _keyed(bound, {})
    if read is None:
        return None
    contains: tuple[tuple[str, Tree], ...] = ()
    lacks: tuple[tuple[str, Tree], ...] = ()
    if bound.operation == "add":
        contains = tuple((elements.field, _element(bound, number, index)) for index in range(len(bound.items)))
    elif bound.operation == "remove":
        lacks = tuple((elements.field, _named(elements.key, key)) for key in bound.element_keys)
    else:
        contains = tuple(
            (elements.field, {elements.key: key} | bound.fields) for key in bound.element_keys if elements.key
        )
    return ReadBack(
        read.tool,
        read.arguments,
        read.path,
        contains=tuple((name, pack(tree)) for name, tree in contains),
        lacks=tuple((name, pack(tree)) for name, tree in lacks),
    )


def _element(bound: Bound, number: int | None, index: int) -> Tree:
    item, elements = bound.items[index], bound.elements
    if set(item) == {""}:
        return item[""]
    if number is None or elements is None or not elements.key or elements.key in item:
        return item
    # Its own key tells it from others with the same content.
    return {**item, elements.key: reference(number, (*result_path(bound.binding, index), elements.key))}


def _named(key: str, value: Tree) -> Tree:
    return {key: value} if key else value

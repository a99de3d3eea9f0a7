"""How a call is taken back, and which class that gives it (plan-apply-undo 5.4, three-tools 9).

R0: a true inverse is known. R1: an update with the before-image of every field written. R2: only as a new object. R3:
not. Pure; everything follows from the tool, its arguments, the catalogue and the before-images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from delta_protocol.catalogue.model import Binding, Collection, Connector, Effect, find_tool
from delta_protocol.changes import binding as bind
from delta_protocol.changes.binding import Bound
from delta_protocol.changes.definitions import required_parameters, takes_null
from delta_protocol.changes.holes import Tree, fillers, pack, reference
from delta_protocol.changes.images import (
    NOTHING,
    UNKNOWN,
    Images,
    entity_of,
    field_of,
    is_known,
    listed,
    reader,
)
from delta_protocol.changes.model import BeforeRead, Inverse, Path, Reversibility
from delta_protocol.changes.redaction import is_secret, secrets_in
from delta_protocol.changes.words import article
from delta_protocol.codecs.exact_json import is_array, is_object


@dataclass(frozen=True, slots=True)
class Way:
    """The class of a call with its inverse, or why there is none. `needs`: the reads that would give before-images."""

    reversibility: Reversibility
    inverse: Inverse | None = None
    because: str | None = None
    needs: tuple[BeforeRead, ...] = ()


def _never(because: str, needs: tuple[BeforeRead, ...] = ()) -> Way:
    return Way(Reversibility.R3, None, because, needs)


def way_back(connector: Connector, tool: str, bound: Bound | None, number: int, images: Images) -> Way:
    """Return how call `number` of `tool` is taken back."""
    known = find_tool(connector, tool)
    if known is not None and known.effect is Effect.IRREVERSIBLE:
        return _never(f"{tool} is marked irreversible")
    if bound is None:
        return _never(f"nothing is known that takes {tool} back")
    image = images.of(entity_of(connector, bound.collection, bound.key))
    match bound.operation:
        case "create":
            return _of_create(connector, bound, bound.binding, number, images)
        case "upsert" if image is NOTHING:
            return _of_create(connector, bound, bound.collection.create or bound.binding, number, images)
        case "update" | "upsert":
            return _of_update(connector, bound, image)
        case "edit":
            return _of_edit(connector, bound, image)
        case "delete":
            return _of_delete(connector, bound, images)
        case "add":
            return _of_add(connector, bound, number, images)
        case "remove":
            return _of_remove(connector, bound, image)
        case _:
            return _of_change(connector, bound, image)


def _looks(connector: Connector, collection: Collection, key: Tree) -> tuple[BeforeRead, ...]:
    """Return the read that shows the entity, none where there is none or its key is not known yet."""
    entity, read = entity_of(connector, collection, key), reader(collection, key)
    return () if entity is None or read is None else (BeforeRead(entity, read),)


def _unread(connector: Connector, bound: Bound, image: Any, tool: str) -> Way | None:  # noqa: ANN401 - an image
    if is_known(image):
        return None
    if image is NOTHING:
        return _never(f"there was no {bound.collection.noun} to put back")
    looks = _looks(connector, bound.collection, bound.key)
    if not looks:
        return _never(f"no tool reads what {tool} changes")
    return _never(f"what it was before {tool} could not be read", looks)


def _of_update(connector: Connector, bound: Bound, image: Any) -> Way:  # noqa: ANN401 - an image
    tool = bound.binding.tool
    if bound.rest:
        extra = ", ".join(f"`{name}`" for name in bound.rest)
        return _never(f"what {extra} of {tool} does is not a field that could be put back")
    unread = _unread(connector, bound, image, tool)
    if unread is not None:
        return unread
    earlier: dict[str, Any] = {}
    for name in bound.fields:
        if is_secret(name):
            return _never(f"`{name}` is a secret: what it was is not kept")
        had, value = field_of(image, name)
        if (not had or value is None) and not _takes_null(connector, tool, bound.binding.fields[name]):
            return _never(f"`{name}` was not set before, and {tool} cannot unset it")
        earlier[name] = value
    arguments = bind.update_arguments(bound.binding, bound.key, earlier)
    return Way(Reversibility.R1, Inverse(tool, pack(arguments), "put back what was there"))


def _takes_null(connector: Connector, tool: str, parameter: str) -> bool:
    known = find_tool(connector, tool)
    return known is None or takes_null(known, parameter)


def _of_edit(connector: Connector, bound: Bound, image: Any) -> Way:  # noqa: ANN401 - an image
    update = bound.collection.update
    if update is None:
        return _never(f"no tool writes a whole {bound.collection.noun} back")
    unread = _unread(connector, bound, image, bound.binding.tool)
    if unread is not None:
        return unread
    fields = {name: field_of(image, name)[1] for name in update.fields if field_of(image, name)[0]}
    if not fields:
        return _never(f"{update.tool} sets nothing of what {bound.binding.tool} changes")
    whole = Bound(bound.collection, "update", update, bound.keys, (fields,))
    return _of_update(connector, whole, image)


def _of_create(connector: Connector, bound: Bound, create: Binding, number: int, images: Images) -> Way:
    collection = bound.collection
    delete = collection.delete
    if delete is None:
        return _never(f"no tool deletes what {create.tool} makes")
    older = _older(connector, bound, create, delete, images)
    if older is not None:
        return older
    if delete.content is not None:
        arguments = bind.delete_arguments(delete, (), bound.items)
    else:
        keys = bound.keys or _made_keys(collection, create, len(bound.items), number)
        if not keys or (len(keys) > 1 and not delete.many):
            return _never(f"{delete.tool} cannot name what {create.tool} makes")
        arguments = bind.delete_arguments(delete, keys, ())
    return Way(Reversibility.R0, Inverse(delete.tool, pack(arguments), f"by {delete.tool}"))


def _older(connector: Connector, bound: Bound, create: Binding, delete: Binding, images: Images) -> Way | None:
    """Return why `delete` might take away what was there before the call; None where nothing says so.

    Servers there are that quietly keep what they have. What names itself must therefore have been seen to be absent,
    where anything shows that.
    """
    unknown: list[BeforeRead] = []
    for look in _looks_at_new(connector, bound, delete):
        image = images.of(look.entity)
        if image is UNKNOWN:
            unknown.append(look)
        elif image is not NOTHING and not images.was_deleted(look.entity):
            return _never(f"it was there before: {delete.tool} would take away more than was made")
    if unknown:
        return _never(f"whether it was there before {create.tool} is not known", tuple(unknown))
    return None


def _looks_at_new(connector: Connector, bound: Bound, delete: Binding) -> Iterator[BeforeRead]:
    collection = bound.collection
    names = bound.items if delete.content is not None else bound.keys
    for name in names:
        entity = entity_of(connector, collection, name)
        item = name if is_object(name) else {collection.key: name}
        read = reader(collection, name) if delete.content is None else None
        read = read or listed(collection, (item,), absent=True)
        if entity is not None and read is not None:
            yield BeforeRead(entity, read)


def _made_keys(collection: Collection, create: Binding, count: int, number: int) -> tuple[Tree, ...]:
    if not collection.key:
        return ()
    return tuple(
        reference(number, (*result_path(create, index if count > 1 or create.content else None), collection.key))
        for index in range(count)
    )


def result_path(binding: Binding, index: int | None) -> Path:
    """Return where the entity (of a batch: the one at `index`) lies in the decoded result of a create or add."""
    return binding.result if index is None or not binding.many else (*batch_path(binding), index)


def batch_path(binding: Binding) -> Path:
    """Return where the list of entities lies in the decoded result of a tool that makes many."""
    return binding.result[:-1] if binding.result and isinstance(binding.result[-1], int) else binding.result


def _of_delete(connector: Connector, bound: Bound, images: Images) -> Way:
    collection, create = bound.collection, bound.collection.create
    tool = bound.binding.tool
    if create is None:
        return _never(f"no tool makes {article(collection.noun)} again")
    if bound.items:
        arguments = bind.create_arguments(create, bound.items)
        return Way(Reversibility.R0, Inverse(create.tool, pack(arguments), f"by {create.tool}"))
    found = [images.of(entity_of(connector, collection, key)) for key in bound.keys]
    if UNKNOWN in found:
        looks = _looks(connector, collection, bound.key) if len(bound.keys) == 1 else ()
        return _never(f"what {tool} deletes could not be read before", looks)
    there = [image for image in found if is_known(image)]
    if not there:
        return _never(f"there is no {collection.noun} to delete")
    return _again(connector, create, there, collection)


def _again(connector: Connector, create: Binding, images: list[Any], collection: Collection) -> Way:
    if len(images) > 1 and not (create.many and create.content):
        return _never(f"{create.tool} makes one {collection.noun} at a time")
    items = [image if create.content else _settable(create, image) for image in images]
    if any(True for item in items for _ in secrets_in(item)):
        return _never(f"the {collection.noun} holds a secret that is not kept")
    arguments = bind.create_arguments(create, [item if is_object(item) else {"": item} for item in items])
    missing = _required(connector, create.tool) - set(arguments)
    if missing:
        names = ", ".join(f"`{name}`" for name in sorted(missing))
        return _never(f"{create.tool} needs {names}, which reading does not give")
    return Way(Reversibility.R2, Inverse(create.tool, pack(arguments), f"by {create.tool}, as a new {collection.noun}"))


def _settable(create: Binding, image: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON value
    found = {name: field_of(image, name) for name in create.fields}
    return {name: value for name, (had, value) in found.items() if had and value is not None}


def _required(connector: Connector, tool: str) -> frozenset[str]:
    known = find_tool(connector, tool)
    return frozenset() if known is None else required_parameters(known)


def _of_add(connector: Connector, bound: Bound, number: int, images: Images) -> Way:
    elements, add = bound.elements, bound.binding
    assert elements is not None
    remove = elements.remove
    if remove is None or elements.remove_key is None:
        return _never(f"no tool removes what {add.tool} adds")
    named = [item[elements.key] for item in bound.items if elements.key in item]
    made_here = any(True for _ in fillers(bound.key))
    if named and not made_here:
        # What the answer names was made by the call; what the caller names may have been there already.
        held = _held(connector, bound, named, images.of(entity_of(connector, bound.collection, bound.key)), remove.tool)
        if held is not None:
            return held
    keys: list[Tree] = []
    for index, item in enumerate(bound.items):
        made = (*result_path(add, index), elements.key)
        keys.append(item[elements.key] if elements.key in item else reference(number, made))
    if len(keys) > 1 and not remove.many:
        return _never(f"{remove.tool} removes one at a time")
    arguments = bind.remove_arguments(elements, remove, bound.key, keys)
    return Way(Reversibility.R0, Inverse(remove.tool, pack(arguments), f"by {remove.tool}"))


def _held(
    connector: Connector,
    bound: Bound,
    named: list[Tree],
    image: Any,  # noqa: ANN401 - an image
    remove: str,
) -> Way | None:
    """Return why `remove` might take away an element that was there before; None where all were known to be absent."""
    elements = bound.elements
    assert elements is not None
    if image is NOTHING:
        return None
    name = elements.field
    if image is UNKNOWN:
        looks = _looks(connector, bound.collection, bound.key)
        return _never(f"whether `{name}` held it before {bound.binding.tool} is not known", looks)
    had, array = field_of(image, name)
    if not had or not (array is None or is_array(array)):
        return _never(f"reading {article(bound.collection.noun)} does not show what `{name}` held before")
    before = [item.get(elements.key) if is_object(item) else item for item in array or ()]
    if any(key in before for key in named):
        return _never(f"`{name}` held it before: {remove} would take away more than was added")
    return None


def _of_remove(connector: Connector, bound: Bound, image: Any) -> Way:  # noqa: ANN401 - an image
    elements = bound.elements
    assert elements is not None
    add = elements.add
    if add is None:
        return _never(f"no tool adds what {bound.binding.tool} removes")
    if elements.key == "":
        items: list[dict[str, Tree]] = [{"": key} for key in bound.element_keys]
    else:
        unread = _unread(connector, bound, image, bound.binding.tool)
        if unread is not None:
            return unread
        before = [element_by_key(image, elements.field, elements.key, key) for key in bound.element_keys]
        found = [item for item in before if item is not None]
        if len(found) != len(before):
            return _never(f"there was no such element in `{elements.field}`")
        items = [item if add.content else _settable(add, item) for item in found]
    if len(items) > 1 and not add.many:
        return _never(f"{add.tool} adds one at a time")
    arguments = bind.add_arguments(add, bound.key, items)
    kind = Reversibility.R0 if elements.key == "" else Reversibility.R2
    return Way(kind, Inverse(add.tool, pack(arguments), f"by {add.tool}"))


def element_by_key(image: Any, name: str, key: str, wanted: Tree) -> Any:  # noqa: ANN401 - a JSON value
    """Return the element of the image's array field whose key is `wanted`, or None."""
    had, array = field_of(image, name)
    if not had or not is_array(array):
        return None
    return next((item for item in array if is_object(item) and item.get(key) == wanted), None)


def _of_change(connector: Connector, bound: Bound, image: Any) -> Way:  # noqa: ANN401 - an image
    elements = bound.elements
    assert elements is not None
    unread = _unread(connector, bound, image, bound.binding.tool)
    if unread is not None:
        return unread
    wanted = bound.element_keys[0] if len(bound.element_keys) == 1 else None
    element = element_by_key(image, elements.field, elements.key, wanted)
    if element is None or any(name not in element or is_secret(name) for name in bound.fields):
        return _never(f"what the element of `{elements.field}` was is not known")
    earlier = {name: element[name] for name in bound.fields}
    arguments = bind.change_arguments(elements, bound.binding, bound.key, wanted, earlier)
    return Way(Reversibility.R1, Inverse(bound.binding.tool, pack(arguments), "put back what was there"))

"""From an entity's operation to a tool's arguments, and back: what a call of a bound tool does to which entity.

A collection's `Binding` says which tool makes an operation and what its parameters mean. The functions named
`*_arguments` go from operation to call; `recognise` goes back, so that a tool called by name gets the same
before-image, inverse and read-back as the same change made through the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from delta_protocol.catalogue.model import Binding, Collection, Connector, Elements
from delta_protocol.changes.holes import Tree
from delta_protocol.changes.model import Path
from delta_protocol.codecs.exact_json import is_array, is_object


@dataclass(frozen=True, slots=True)
class Bound:
    """What a call does. `operation`: update | upsert | edit | create | delete | add | remove | change (of an element).

    `keys`: the entity's key (several for a batch; none where the server makes it). `items`: per entity or element, its
    fields. `element_keys`: what `remove` and `change` name.
    """

    collection: Collection
    operation: str
    binding: Binding
    keys: tuple[Tree, ...] = ()
    items: tuple[dict[str, Tree], ...] = ()
    elements: Elements | None = None
    element_keys: tuple[Tree, ...] = ()
    rest: dict[str, Tree] = field(default_factory=dict[str, Tree])
    """Arguments that mean neither the key nor a field."""

    @property
    def key(self) -> Tree:
        """The entity's key; null if it has none yet or there are several."""
        return self.keys[0] if len(self.keys) == 1 else None

    @property
    def fields(self) -> dict[str, Tree]:
        """The fields of the one entity or element; empty for a batch."""
        return self.items[0] if len(self.items) == 1 else {}


def recognise(connector: Connector, tool: str, arguments: dict[str, Tree]) -> Bound | None:
    """Return what a call of `tool` does to an entity, or None where nothing is bound to it.

    A tool that is bound as both create and update of one collection is an `upsert` when the call names a key.
    """
    found: Bound | None = None
    for collection in connector.collections:
        for bound in _meanings(collection, tool, arguments):
            if found is None:
                found = bound
            elif {found.operation, bound.operation} == {"create", "update"} and found.collection is bound.collection:
                keyed = bound if bound.operation == "update" else found
                found = Bound(collection, "upsert", keyed.binding, keyed.keys, keyed.items, rest=keyed.rest)
    return found


def _meanings(collection: Collection, tool: str, arguments: dict[str, Tree]) -> Iterator[Bound]:
    update, create, delete = collection.update, collection.create, collection.delete
    if update is not None and update.tool == tool and update.key in arguments:
        yield _keyed(collection, "update", update, arguments)
    if create is not None and create.tool == tool:
        yield _create(collection, create, arguments)
    if delete is not None and delete.tool == tool:
        yield _delete(collection, delete, arguments)
    for edit in collection.edits:
        if edit.tool == tool and edit.key in arguments:
            yield _keyed(collection, "edit", edit, arguments)
    for elements in collection.elements:
        for operation, binding in (("add", elements.add), ("remove", elements.remove), ("change", elements.update)):
            inner = _unwrapped(binding, arguments) if binding is not None and binding.tool == tool else None
            if binding is not None and inner is not None:
                yield _element(collection, elements, operation, binding, inner)


def _unwrapped(binding: Binding, arguments: dict[str, Tree]) -> dict[str, Tree] | None:
    """Return the arguments that the binding's names speak of; None where its wrapper holds anything but one object."""
    if binding.wrapper is None:
        return arguments
    items = arguments.get(binding.wrapper)
    return items[0] if is_array(items) and len(items) == 1 and is_object(items[0]) else None


def _wrapped(binding: Binding, arguments: dict[str, Tree]) -> dict[str, Tree]:
    return arguments if binding.wrapper is None else {binding.wrapper: [arguments]}


def _keyed(collection: Collection, operation: str, binding: Binding, arguments: dict[str, Tree]) -> Bound:
    keys = _many(arguments.get(binding.key or ""), binding.many)
    fields = named(binding, arguments)
    return Bound(collection, operation, binding, keys, (fields,), rest=_rest(binding, arguments, {binding.key}))


def _create(collection: Collection, binding: Binding, arguments: dict[str, Tree]) -> Bound:
    if binding.content is None:
        items: tuple[dict[str, Tree], ...] = (named(binding, arguments),)
        rest = _rest(binding, arguments, set())
    else:
        items = tuple(_unaliased(binding, item) for item in _many(arguments.get(binding.content), binding.many))
        rest = _rest(binding, arguments, {binding.content})
    keys = tuple(item[collection.key] for item in items if collection.key and item.get(collection.key) is not None)
    return Bound(collection, "create", binding, keys if len(keys) == len(items) else (), items, rest=rest)


def _delete(collection: Collection, binding: Binding, arguments: dict[str, Tree]) -> Bound:
    if binding.content is not None:
        items = tuple(_unaliased(binding, item) for item in _many(arguments.get(binding.content), binding.many))
        return Bound(collection, "delete", binding, (), items)
    return Bound(collection, "delete", binding, _many(arguments.get(binding.key or ""), binding.many))


def _element(
    collection: Collection, elements: Elements, operation: str, binding: Binding, arguments: dict[str, Tree]
) -> Bound:
    keys = _many(arguments.get(binding.key), False) if binding.key in arguments else ()
    if operation == "add":
        items = _element_items(binding, arguments)
        return Bound(collection, operation, binding, keys, items, elements)
    removed = _many(arguments.get(elements.remove_key or ""), binding.many)
    items = (named(binding, arguments),) if operation == "change" else ()
    return Bound(collection, operation, binding, keys, items, elements, removed)


def _element_items(binding: Binding, arguments: dict[str, Tree]) -> tuple[dict[str, Tree], ...]:
    if binding.content is not None:
        return tuple(_unaliased(binding, item) for item in _many(arguments.get(binding.content), binding.many))
    scalar = binding.fields.get("")
    if scalar is not None and binding.many:
        return tuple({"": item} for item in _many(arguments.get(scalar), True))
    return (named(binding, arguments),)


def _many(value: Tree, many: bool) -> tuple[Tree, ...]:
    if value is None:
        return ()
    return tuple(value) if many and is_array(value) else (value,)


def named(binding: Binding, arguments: dict[str, Tree]) -> dict[str, Tree]:
    """Return the entity fields that the arguments set."""
    return {name: arguments[parameter] for name, parameter in binding.fields.items() if parameter in arguments}


def _unaliased(binding: Binding, item: Tree) -> dict[str, Tree]:
    if not is_object(item):
        return {"": item}
    names = {parameter: name for name, parameter in binding.fields.items()}
    return {str(names.get(parameter, parameter)): value for parameter, value in item.items()}


def _rest(binding: Binding, arguments: dict[str, Tree], known: set[str | None]) -> dict[str, Tree]:
    meant = known | set(binding.fields.values())
    return {name: value for name, value in arguments.items() if name not in meant}


def key_arguments(binding: Binding, key: Tree) -> dict[str, Tree]:
    """Return the arguments that name one entity."""
    if binding.key is None:
        return {}
    return {binding.key: [key] if binding.many else key}


def entity_path(binding: Binding) -> Path:
    """Return where the one entity lies in the decoded result of a reader called with one key."""
    if binding.many and not (binding.result and isinstance(binding.result[-1], int)):
        return (*binding.result, 0)
    return binding.result


def list_path(binding: Binding) -> Path:
    """Return where the list of entities lies in the decoded result of a reader called with many keys."""
    return entity_path(binding)[:-1] if binding.many else binding.result


def update_arguments(binding: Binding, key: Tree, fields: dict[str, Tree]) -> dict[str, Tree]:
    """Return the arguments that set `fields` of one entity. Each must be in `binding.fields`."""
    return key_arguments(binding, key) | {binding.fields[name]: value for name, value in fields.items()}


def create_arguments(binding: Binding, items: Sequence[dict[str, Tree]]) -> dict[str, Tree]:
    """Return the arguments that create `items` (one, unless the tool takes many)."""
    if binding.content is not None:
        contents = [content_of(binding, item) for item in items]
        return {binding.content: contents if binding.many else contents[0]}
    return {binding.fields[name]: value for name, value in items[0].items() if name in binding.fields}


def content_of(binding: Binding, item: dict[str, Tree]) -> Tree:
    """Return one element as the content parameter takes it."""
    if set(item) == {""}:
        return item[""]
    return {binding.fields.get(name, name): value for name, value in item.items()}


def delete_arguments(binding: Binding, keys: Sequence[Tree], items: Sequence[dict[str, Tree]]) -> dict[str, Tree]:
    """Return the arguments that delete entities, named by key or, where the tool wants it, by their whole content."""
    if binding.content is not None:
        contents = [content_of(binding, item) for item in items]
        return {binding.content: contents if binding.many else contents[0]}
    return {binding.key or "": list(keys) if binding.many else keys[0]}


def add_arguments(binding: Binding, parent: Tree, items: Sequence[dict[str, Tree]]) -> dict[str, Tree]:
    """Return the arguments that add elements (one, unless the tool takes many) to `parent`."""
    arguments: dict[str, Tree] = {} if binding.key is None else {binding.key: parent}
    if binding.content is not None:
        contents = [content_of(binding, item) for item in items]
        added = {binding.content: contents if binding.many else contents[0]}
    elif binding.many and "" in binding.fields:
        added = {binding.fields[""]: [item[""] for item in items]}
    else:
        added = {binding.fields[name]: value for name, value in items[0].items() if name in binding.fields}
    return _wrapped(binding, arguments | added)


def remove_arguments(elements: Elements, binding: Binding, parent: Tree, keys: Sequence[Tree]) -> dict[str, Tree]:
    """Return the arguments that remove the elements of `parent` with these keys."""
    return _wrapped(binding, _element_arguments(elements, binding, parent, keys))


def change_arguments(
    elements: Elements, binding: Binding, parent: Tree, key: Tree, fields: dict[str, Tree]
) -> dict[str, Tree]:
    """Return the arguments that set `fields` of one element. Each must be in `binding.fields`."""
    values = {binding.fields[name]: value for name, value in fields.items()}
    return _wrapped(binding, _element_arguments(elements, binding, parent, [key]) | values)


def _element_arguments(elements: Elements, binding: Binding, parent: Tree, keys: Sequence[Tree]) -> dict[str, Tree]:
    arguments: dict[str, Tree] = {} if binding.key is None else {binding.key: parent}
    if elements.remove_key is not None:
        arguments[elements.remove_key] = list(keys) if binding.many else keys[0]
    return arguments

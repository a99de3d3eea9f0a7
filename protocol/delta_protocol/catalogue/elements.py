"""Array fields that have tools of their own: `comments` with `add_comment` and `delete_comment` (plan-apply-undo
5.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_protocol.catalogue import schemas
from delta_protocol.catalogue.families import Named, families
from delta_protocol.catalogue.model import Binding, Effect, Elements
from delta_protocol.catalogue.names import singular, words
from delta_protocol.catalogue.shapes import Entity, Shape, match_fields

_ADD_ROLES = ("add", "create")
_REMOVE_ROLES = ("remove", "delete")
_KEYS = ("id", "key", "uuid", "number", "name")


def infer_elements(
    noun: Sequence[str], parameter: str, entity: Entity, reader: Shape, shapes: Mapping[str, Shape]
) -> tuple[Elements, ...]:
    """Return the elements of the entity whose tools take the parent's key and leave no second reading.

    `noun` and `parameter` are the parent's noun and its reader's key parameter; `entity` its fields, shown by `reader`.
    """
    by_noun = families(shapes)
    found: list[Elements] = []
    for field, schema in entity.items():
        root = reader.output_root or schemas.EMPTY
        if not schemas.is_a("array", schema, root):
            continue
        element = (*words(field)[:-1], singular(words(field)[-1])) if words(field) else ()
        members = [*by_noun.get(element, ()), *by_noun.get((*noun, *element), ())]
        elements = _elements(field, schemas.items(schema, root), root, members, (noun, parameter), shapes)
        if elements:
            found.append(elements)
    return tuple(found)


def _elements(
    field: str,
    item: schemas.Schema,
    root: schemas.Schema,
    members: Sequence[Named],
    parent: tuple[Sequence[str], str],
    shapes: Mapping[str, Shape],
) -> Elements | None:
    adder = _one(members, _ADD_ROLES, shapes)
    if adder is None:
        return None
    parent_parameter = _parent_parameter(adder, *parent)
    if parent_parameter is None:
        return None
    parts = schemas.properties(item, root)
    if parts:
        return _objects(field, parts, members, (adder, parent_parameter), parent, shapes)
    if schemas.is_scalar(item, root):
        return _scalars(field, members, (adder, parent_parameter), parent, shapes)
    return None


def _objects(
    field: str,
    parts: Entity,
    members: Sequence[Named],
    add: tuple[Shape, str],
    parent: tuple[Sequence[str], str],
    shapes: Mapping[str, Shape],
) -> Elements | None:
    adder, parent_parameter = add
    key = next((name for name in _KEYS if name in parts), None)
    fields = match_fields([name for name in adder.parameters if name != parent_parameter], parts)
    if key is None or not fields or not set(adder.required) - {parent_parameter} <= set(fields.values()):
        return None
    place = adder.entity(lambda names: key in names and set(fields) <= set(names))
    if place is None:
        return None
    singular_noun = next(iter(member.noun for member in members))
    remover = _one(members, _REMOVE_ROLES, shapes)
    removal = _by_keys(remover, parent, singular_noun, key)
    updater = _one(members, ("update",), shapes)
    change = _by_keys(updater, parent, singular_noun, key, fields=fields)
    if removal and change and removal[1] != change[1]:
        change = None
    chosen = removal or change
    return Elements(
        field=field,
        key=key,
        add=Binding(adder.name, key=parent_parameter, fields=fields, result=place[0]),
        remove=removal[0] if removal else None,
        update=change[0] if change else None,
        remove_key=chosen[1] if chosen else None,
    )


def _scalars(
    field: str,
    members: Sequence[Named],
    add: tuple[Shape, str],
    parent: tuple[Sequence[str], str],
    shapes: Mapping[str, Shape],
) -> Elements | None:
    adder, parent_parameter = add
    others = [name for name in adder.required if name != parent_parameter]
    if len(others) != 1 or not adder.is_scalar(others[0]):
        return None
    binding = Binding(adder.name, key=parent_parameter, fields={"": others[0]})
    remover = _one(members, _REMOVE_ROLES, shapes)
    remove_parent = _parent_parameter(remover, *parent) if remover else None
    if remover is None or remove_parent is None or set(remover.required) != {remove_parent, others[0]}:
        return Elements(field=field, add=binding)
    removal = Binding(remover.name, key=remove_parent)
    return Elements(field=field, add=binding, remove=removal, remove_key=others[0])


def _one(members: Sequence[Named], roles: Sequence[str], shapes: Mapping[str, Shape]) -> Shape | None:
    names = [member.tool for member in members if member.role in roles]
    if len(names) != 1 or shapes[names[0]].effect is Effect.READ:
        return None
    return shapes[names[0]]


def _parent_parameter(tool: Shape, noun: Sequence[str], parameter: str) -> str | None:
    """Return the required parameter that takes the parent's key: named as the reader's, or as the parent's noun."""
    whole = "".join(noun)
    wanted = {f"{whole}{parameter}".lower().replace("_", ""), f"{noun[-1]}{parameter}".lower().replace("_", "")}
    if parameter.lower().replace("_", "") not in _KEYS:
        wanted.add(parameter.lower().replace("_", ""))
    found = [name for name in tool.required if name.lower().replace("_", "") in wanted]
    if not found and parameter in tool.required:
        found = [parameter]
    return found[0] if len(found) == 1 and tool.is_scalar(found[0]) else None


def _by_keys(
    tool: Shape | None,
    parent: tuple[Sequence[str], str],
    noun: Sequence[str],
    key: str,
    fields: Mapping[str, str] | None = None,
) -> tuple[Binding, str] | None:
    """Bind a tool that takes the parent's key, the element's key, and nothing else that is not one of `fields`."""
    parent_parameter = _parent_parameter(tool, *parent) if tool else None
    if tool is None or parent_parameter is None:
        return None
    wanted = {f"{noun[-1]}{key}".lower(), f"{''.join(noun)}{key}".lower(), key.lower()}
    keys = [n for n in tool.required if n != parent_parameter and n.lower().replace("_", "") in wanted]
    if len(keys) != 1 or not tool.is_scalar(keys[0]):
        return None
    others = [name for name in tool.parameters if name not in (parent_parameter, keys[0])]
    settable = {field: name for field, name in (fields or {}).items() if name in others}
    if set(tool.required) - {parent_parameter, keys[0]} - set(settable.values()):
        return None
    if fields is not None and not settable:
        return None
    return Binding(tool.name, key=parent_parameter, fields=settable), keys[0]

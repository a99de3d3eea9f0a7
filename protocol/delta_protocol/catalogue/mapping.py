"""Collections that a profile or the user's configuration maps by hand (three-tools 5).

Each operation is checked against the tool it names: a parameter that is not there makes the operation a fault that is
told in words, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from delta_protocol.catalogue import schemas
from delta_protocol.catalogue.model import Binding, Collection, Elements
from delta_protocol.catalogue.shapes import Shape
from delta_protocol.config import CollectionConfig, ElementsConfig, OperationConfig

OPERATIONS = ("get", "list", "search", "create", "update", "delete")


def apply_mapping(
    name: str, inferred: Collection | None, mapping: CollectionConfig, shapes: Mapping[str, Shape], source: str
) -> tuple[Collection | None, tuple[str, ...]]:
    """Return the collection with the mapped operations in place, and what of the mapping did not fit, in words.

    Without `key` in the mapping the inferred one holds; a mapping alone needs one. None where nothing can be bound.
    """
    faults: list[str] = []
    key = mapping.key if mapping.key is not None else (inferred.key if inferred else None)
    if key is None:
        return inferred, (f"collection {name}: `key` is missing (the field that holds an entity's key)",)
    bound: dict[str, Binding] = {}
    for operation in OPERATIONS:
        given: OperationConfig | None = getattr(mapping, operation)
        binding = _binding(f"collection {name}.{operation}", given, shapes, faults)
        if binding:
            bound[operation] = binding
    edits = [_binding(f"collection {name}.edits", given, shapes, faults) for given in mapping.edits]
    elements = _elements(name, mapping.elements, shapes, faults)
    base = inferred or Collection(name=name, noun=name.rsplit("_", 1)[-1], key=key)
    kept = tuple(known for known in base.elements if known.field not in mapping.elements)
    result = msgspec.structs.replace(
        base,
        key=key,
        elements=(*kept, *elements),
        version=mapping.version or base.version,
        edits=(*base.edits, *(edit for edit in edits if edit)),
        source=source,
        **bound,
    )
    usable = any(getattr(result, operation) for operation in OPERATIONS)
    return (_with_fields(result) if usable else inferred), tuple(faults)


def _elements(
    name: str, mappings: Mapping[str, ElementsConfig], shapes: Mapping[str, Shape], faults: list[str]
) -> list[Elements]:
    found: list[Elements] = []
    for field, mapping in mappings.items():
        where = f"collection {name}.elements.{field}"
        elements = Elements(
            field=field,
            key=mapping.key,
            add=_binding(f"{where}.add", mapping.add, shapes, faults, wraps=True),
            remove=_binding(f"{where}.remove", mapping.remove, shapes, faults, wraps=True),
            update=_binding(f"{where}.update", mapping.update, shapes, faults, wraps=True),
            remove_key=mapping.remove_key,
        )
        if elements.add or elements.remove or elements.update:
            found.append(elements)
    return found


def _binding(
    where: str,
    given: OperationConfig | None,
    shapes: Mapping[str, Shape],
    faults: list[str],
    *,
    wraps: bool = False,
) -> Binding | None:
    if given is None:
        return None
    tool = shapes.get(given.tool)
    if tool is None:
        faults.append(f'{where}: no tool "{given.tool}"')
        return None
    if given.wrapper is not None and (not wraps or given.content is not None):
        faults.append(f"{where}: `wrapper` is for operations of elements without `content`")
        return None
    inside = _content_members(tool, given.content or given.wrapper)
    known = set(tool.parameters) if inside is None else inside
    wanted = [*given.fields.values()]
    outside = [name for name in (given.content, given.cursor, given.wrapper) if name is not None]
    missing = [name for name in wanted if name not in known] + [name for name in outside if name not in tool.parameters]
    if given.key is not None and given.key not in (known if given.wrapper else tool.parameters):
        missing.append(given.key)
    if missing:
        faults.append(f"{where}: {given.tool} has no parameter {', '.join(missing)}")
        return None
    return Binding(
        given.tool,
        given.key,
        dict(given.fields),
        given.result,
        given.many,
        given.content,
        given.cursor,
        given.wrapper,
    )


def _content_members(tool: Shape, content: str | None) -> set[str] | None:
    """The members of the object, or of the list's objects, that the content parameter takes."""
    if content is None:
        return None
    schema = tool.parameters.get(content, schemas.EMPTY)
    item = schemas.items(schema, tool.input_root) or schema
    return set(schemas.properties(item, tool.input_root))


def _with_fields(collection: Collection) -> Collection:
    """Fields that only the mapping knows come after those that the output schema shows."""
    mapped = [collection.key] if collection.key else []
    for binding in (collection.create, collection.update):
        mapped += binding.fields if binding else ()
    mapped += [elements.field for elements in collection.elements]
    fields = tuple(dict.fromkeys((*collection.fields, *mapped)))
    return msgspec.structs.replace(collection, fields=fields)

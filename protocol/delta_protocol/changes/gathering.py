"""From a recording to drafts of calls, still in program order: entity changes covered, creates completed, batches
joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from delta_protocol.catalogue.model import Catalogue, Collection, Connector, Effect, find_tool
from delta_protocol.changes import binding as bind
from delta_protocol.changes.binding import Bound, recognise
from delta_protocol.changes.covering import Subject, cover
from delta_protocol.changes.holes import Filler, Tree, dig, pack, reference, unpack, writes_of
from delta_protocol.changes.images import Images, entity_name, entity_of
from delta_protocol.changes.inverses import result_path
from delta_protocol.changes.model import EntityChange, EntityRef, Mutation, Recording, ResultRef, Write
from delta_protocol.changes.recording import replay
from delta_protocol.changes.words import article
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import Invalid


@dataclass(slots=True)
class Gathered:
    """A call of the program before ordering. Holes in `arguments` name the recording's writes; `made` are the writes
    that this call makes."""

    connector: Connector
    tool: str
    arguments: dict[str, Tree]
    seq: int
    line: int
    direct: bool = False
    made: list[int] = field(default_factory=list[int])
    bound: Bound | None = None


def gather(recording: Recording, catalogue: Catalogue) -> list[Gathered]:
    """Return the program's calls. Raises `Invalid`, with the line, for what no tool can make."""
    deleted = {entity_name(write.entity) for write in recording.writes if write.operation == "delete" and write.entity}
    out: list[Gathered] = []
    for change in recording.changes:
        if entity_name(change.entity) not in deleted:
            out.extend(_changed(change, catalogue))
    for write in recording.writes:
        out.extend(_written(write, catalogue))
    out.sort(key=lambda item: item.seq)
    return _joined(_without_cancelled(out, recording.writes))


def connector_of(catalogue: Catalogue, name: str, line: int) -> Connector:
    """Return the connector. Raises `Invalid` for one that the catalogue does not have."""
    connector = catalogue.connector(name)
    if connector is None:
        raise Invalid(f"there is no connector {name!r}", line=line, connector=name)
    return connector


def collection_of(connector: Connector, name: str, line: int) -> Collection:
    """Return the collection. Raises `Invalid` for one that the connector does not have."""
    found = next((collection for collection in connector.collections if collection.name == name), None)
    if found is None:
        raise Invalid(f"{connector.name} has no collection {name!r}", line=line, collection=name)
    return found


def _changed(change: EntityChange, catalogue: Catalogue) -> Iterable[Gathered]:
    connector = connector_of(catalogue, change.entity.connector, change.line)
    collection = collection_of(connector, change.entity.collection, change.line)
    before, after = exact_json.decode(change.before), unpack(change.after)
    if not is_object(before) or not is_object(after):
        raise Invalid(f"{article(collection.noun)} is no object whose fields could be set", line=change.line)
    key = exact_json.decode(change.entity.key)
    subject = Subject(connector, collection, key, change.complete, change.line, _lines(change.mutations))
    for tool, arguments in cover(subject, before, after):
        yield Gathered(connector, tool, arguments, change.seq, change.line)


def _lines(mutations: Iterable[Mutation]) -> dict[str, int]:
    lines: dict[str, int] = {}
    for mutation in mutations:
        if mutation.path and isinstance(mutation.path[0], str):
            lines[mutation.path[0]] = mutation.line
    return lines


def _written(write: Write, catalogue: Catalogue) -> list[Gathered]:
    connector = connector_of(catalogue, write.connector, write.line)
    tool = find_tool(connector, write.tool)
    if tool is None or tool.gone:
        raise Invalid(
            f"{connector.name} has no tool {write.tool!r}", line=write.line, column=write.column, tool=write.tool
        )
    if tool.effect is Effect.OFF:
        raise Invalid(f"{connector.name}.{write.tool} is switched off", line=write.line, column=write.column)
    arguments = unpack(write.arguments)
    if not is_object(arguments):
        raise Invalid(f"{write.tool} takes one object of arguments", line=write.line, column=write.column)
    call = Gathered(
        connector, write.tool, arguments, write.seq, write.line, direct=write.operation == "call", made=[write.id]
    )
    call.bound = recognise(connector, write.tool, arguments)
    return _completed(call, write) if write.operation == "create" and write.changes else [call]


def _completed(call: Gathered, write: Write) -> list[Gathered]:
    """Fold what was set after the creation into the create; what its tool cannot take becomes calls after it."""
    bound, connector = call.bound, call.connector
    if bound is None or len(bound.items) != 1:
        raise Invalid(
            f"{write.tool} makes nothing that could be changed afterwards", line=write.line, column=write.column
        )
    collection, create = bound.collection, bound.binding
    before = bound.fields
    after = _after(before, write.changes)
    takes = {
        name: value
        for name, value in after.items()
        if name in create.fields or (create.content is not None and name in before)
    }
    call.arguments |= _content(call, bind.create_arguments(create, [takes]))
    call.bound = recognise(connector, write.tool, call.arguments)
    path = (*result_path(create, 0 if create.content else None), collection.key)
    key = bound.key if bound.key is not None else reference(write.id, path)
    lines = _lines(write.changes)
    subject = Subject(connector, collection, key, True, write.line, lines)
    rest = cover(subject, {**takes, **_empty_arrays(collection, after, takes)}, after)
    return [call, *(Gathered(connector, tool, args, write.seq, write.line) for tool, args in rest)]


def _content(call: Gathered, arguments: dict[str, Tree]) -> dict[str, Tree]:
    return {name: value for name, value in arguments.items() if value is not None or name in call.arguments}


def _after(before: dict[str, Tree], changes: tuple[Mutation, ...]) -> dict[str, Tree]:
    # The replay starts from plain JSON, so the holes of the created entity are put back where nothing was set over
    # them.
    after = unpack(replay(pack(before).json, changes))
    kept = {name: value for name, value in before.items() if name in after and after[name] == _plain(value)}
    return {**after, **kept}


def _plain(value: Tree) -> Tree:
    return exact_json.decode(pack(value).json)


def _empty_arrays(collection: Collection, after: dict[str, Tree], takes: dict[str, Tree]) -> dict[str, list[Any]]:
    return {
        elements.field: []
        for elements in collection.elements
        if elements.field in after and elements.field not in takes
    }


def _without_cancelled(calls: list[Gathered], writes: tuple[Write, ...]) -> list[Gathered]:
    """Drop creates that the program itself deleted again, with their deletes, where nothing else uses the result."""
    gone: set[int] = set()
    for write in writes:
        created = _deletes_planned(write)
        if created is None:
            continue
        users = [call for call in calls if created in writes_of(call.arguments) and call.made != [write.id]]
        if not users:
            gone |= {created, write.id}
    return [call for call in calls if not set(call.made) & gone]


def _deletes_planned(write: Write) -> int | None:
    if write.operation != "delete":
        return None
    for value in unpack(write.arguments).values():
        leaf = value[0] if is_array(value) and len(value) == 1 else value
        if isinstance(leaf, Filler) and len(leaf.parts) == 1 and isinstance(leaf.parts[0], ResultRef):
            return leaf.parts[0].write
    return None


def _joined(calls: list[Gathered]) -> list[Gathered]:
    """Join creates and deletes of one collection into one call where the tool takes many; direct calls stay as
    called.
    """
    out: list[Gathered] = []
    for call in calls:
        target = next((other for other in out if _may_join(other, call)), None)
        if target is None:
            out.append(replace(call, arguments=dict(call.arguments), made=list(call.made)))
            continue
        assert call.bound is not None
        name = _list_parameter(call.bound)
        target.arguments[name] = [*target.arguments[name], *call.arguments[name]]
        target.made += call.made
    for call in out:
        call.bound = recognise(call.connector, call.tool, call.arguments)
    return out


def _list_parameter(bound: Bound) -> str:
    return bound.binding.content or bound.binding.key or ""


def _may_join(first: Gathered, second: Gathered) -> bool:
    a, b = first.bound, second.bound
    if first.direct or second.direct or a is None or b is None or first.connector is not second.connector:
        return False
    if first.tool != second.tool or a.operation != b.operation or a.operation not in {"create", "delete"}:
        return False
    name = _list_parameter(a)
    lists = is_array(first.arguments.get(name)) and is_array(second.arguments.get(name))
    if not b.binding.many or not lists or set(writes_of(second.arguments)) & set(first.made):
        return False
    others = {key: value for key, value in first.arguments.items() if key != name}
    return others == {key: value for key, value in second.arguments.items() if key != name}


def subject_of(call: Gathered) -> tuple[str, bool]:
    """Return (what the call is about, whether that is unknown)."""
    if call.bound is None:
        return call.connector.name, True
    entity = entity_of(call.connector, call.bound.collection, call.bound.key)
    if entity is not None:
        return entity_name(entity), False
    refs = "".join(str(number) for number in sorted(writes_of(list(call.bound.keys))))
    return f"{call.connector.name}\x1f{call.bound.collection.name}\x1fnew {refs or call.seq}", False


def known_images(recording: Recording, catalogue: Catalogue) -> Images:
    """Return the before-images that the program's own reads give, of entities that can be read again."""
    images = Images()
    seen = [(change.entity, change.before) for change in sorted(recording.changes, key=lambda each: not each.complete)]
    seen += [(write.entity, write.before) for write in recording.writes if write.entity and write.before]
    for entity, before in seen:
        if _has_reader(catalogue, entity):
            images.learn(entity, exact_json.decode(before))
    for read in recording.reads:
        if not read.error:
            _learn_read(images, catalogue, read.connector, read.tool, read.arguments, read.result)
    return images


def _has_reader(catalogue: Catalogue, entity: EntityRef) -> bool:
    connector = catalogue.connector(entity.connector)
    collections = connector.collections if connector is not None else ()
    return any(each.name == entity.collection and each.get is not None for each in collections)


def _learn_read(
    images: Images, catalogue: Catalogue, connector: str, tool: str, arguments: bytes, result: bytes
) -> None:
    known = catalogue.connector(connector)
    given = exact_json.decode(arguments)
    for collection in known.collections if known is not None and is_object(given) else ():
        get = collection.get
        if get is None or get.tool != tool or get.key is None or list(given) != [get.key]:
            continue
        key = given[get.key]
        if get.many:
            if not is_array(key) or len(key) != 1:
                continue
            key = key[0]
        found, image = dig(exact_json.decode(result), bind.entity_path(get))
        if found and image is not None and known is not None:
            images.learn(EntityRef(connector, collection.name, exact_json.encode(key)), image)

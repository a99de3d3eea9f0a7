"""From what a worker says it recorded to a `Recording` to be believed: all is looked up, replayed, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from delta_actors.sandbox.reads import Entry
from delta_protocol.catalogue.effects import effect_of
from delta_protocol.catalogue.model import Binding, Catalogue, Collection, Connector, Effect, Tool, find_tool
from delta_protocol.changes.model import EntityChange, EntityRef, Mutation, Op, Recording, Write
from delta_protocol.changes.recording import Tree, at, references, replay_tree, split
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid, ProtocolViolation
from delta_protocol.wire.message import Json
from delta_protocol.wire.worker import EntityRecord, Finished, MutationRecord, Planned, Source, WriteRecord, untag


class Assembly:
    """Turns one `Finished` into a `Recording`. Anything the prelude would not have said raises `ProtocolViolation`."""

    def __init__(self, catalogue: Catalogue, reads: Mapping[int, Entry], depth: int) -> None:
        self._catalogue = catalogue
        self._reads = reads
        self._depth = depth
        self._count = 0

    def recording(self, finished: Finished, made: Sequence[Entry]) -> Recording:
        """Return the recording. Raises `ProtocolViolation`, `LimitExceeded` (depth)."""
        self._count = len(finished.writes)
        if [write.id for write in finished.writes] != list(range(1, self._count + 1)):
            raise ProtocolViolation("the worker numbered its writes wrongly")
        try:
            return Recording(
                tuple(self._change(record) for record in finished.entities),
                tuple(self._write(record) for record in finished.writes),
                tuple(entry.as_read() for entry in made),
                finished.notes,
            )
        except Invalid as error:
            raise ProtocolViolation(f"the worker's recording does not fit what it read: {error.message}") from None

    def returned(self, finished: Finished) -> Tree:
        """Return the returned value's tree."""
        return self._untag(finished.returned, "the returned value", self._count)

    def _change(self, record: EntityRecord) -> EntityChange:
        connector, collection = self._collection(record.connector, record.collection)
        key = self._untag(record.key, "a key", 0)
        before = self._before(record.sources, connector, collection, key)
        mutations = self._mutations(record.mutations)
        after = replay_tree(exact_json.decode(before), mutations)
        if after != self._untag(record.final, "an entity", self._count):
            raise ProtocolViolation(f"the changes recorded for {record.collection} do not give the value it ended with")
        complete = any(
            collection.get is not None and self._read(source).tool == collection.get.tool for source in record.sources
        )
        return EntityChange(
            EntityRef(record.connector, record.collection, exact_json.encode(key)),
            before,
            split(after),
            mutations,
            record.seq,
            record.line,
            complete,
            tuple(dict.fromkeys(record.fields)),
        )

    def _before(self, sources: tuple[Source, ...], connector: Connector, collection: Collection, key: Tree) -> Json:
        """Return the before-image: the first source, completed by the fields that only later ones have."""
        before: dict[str, Any] = {}
        for source in sources:
            entry = self._read(source)
            if entry.connector != connector.name or entry.tool not in _readers(collection):
                raise ProtocolViolation("the worker took an entity from another tool's result")
            found = at(exact_json.decode(entry.result), source.path)
            if not isinstance(found, dict):
                raise ProtocolViolation("the worker changed something that is no entity")
            fields = cast("dict[str, Any]", found)
            if fields.get(collection.key, key) != key:
                raise ProtocolViolation("the worker named another entity than it read")
            if collection.key not in fields and not _asked_for(entry, collection.get, key):
                raise ProtocolViolation("the worker named another entity than it asked for")
            before = {**fields, **before}
        if not sources:
            raise ProtocolViolation("the worker changed an entity that it did not read")
        return exact_json.encode(before)

    def _read(self, source: Source) -> Entry:
        entry = self._reads.get(source.call)
        if entry is None or not entry.done.is_set() or entry.error:
            raise ProtocolViolation("the worker names a read that was not made")
        return entry

    def _write(self, record: WriteRecord) -> Write:
        connector, tool = self._tool(record)
        arguments = self._untag(record.arguments, "arguments", record.id - 1)
        if not isinstance(arguments, dict):
            raise ProtocolViolation("the worker sent arguments that are no object")
        if effect_of(tool, split(arguments).json) in (Effect.READ, Effect.OFF):
            raise ProtocolViolation(f"the worker plans {record.connector}.{record.tool}, which is no write")
        entity: EntityRef | None = None
        before: Json | None = None
        left: tuple[Mutation, ...] = ()
        if record.operation != "call":
            collection = self._bound(connector, record)
            if record.operation == "create":
                left = self._fold(record, collection, tool, arguments)
            else:
                key = self._untag(record.key, "a key", record.id - 1)
                if not isinstance(key, Planned):
                    entity = EntityRef(record.connector, record.collection, exact_json.encode(key))
                    before = self._before(record.sources, connector, collection, key) if record.sources else None
        return Write(
            record.id,
            record.connector,
            record.tool,
            split(arguments),
            record.seq,
            record.line,
            record.column,
            record.operation,
            entity,
            before,
            left,
        )

    def _bound(self, connector: Connector, record: WriteRecord) -> Collection:
        _, collection = self._collection(connector.name, record.collection)
        binding = collection.create if record.operation == "create" else collection.delete
        if binding is None or binding.tool != record.tool:
            raise ProtocolViolation(f"the worker plans {record.operation} with another tool than the collection's")
        return collection

    def _fold(self, record: WriteRecord, collection: Collection, tool: Tool, arguments: Tree) -> tuple[Mutation, ...]:
        """Put later changes of a created entity into its creation where the tool takes them; return the others."""
        binding = collection.create
        assert binding is not None
        mutations = self._mutations(record.mutations)
        initial = self._untag(record.initial, "a new entity", record.id - 1)
        after = replay_tree(initial, mutations)
        if after != self._untag(record.final, "a new entity", self._count):
            raise ProtocolViolation("the changes recorded for a new entity do not give the value it ended with")
        names = dict.fromkeys(str(mutation.path[0]) for mutation in mutations if mutation.path)
        kept = {name for name in names if not _fold_field(name, after, binding, tool, arguments, record.id)}
        return tuple(mutation for mutation in mutations if not mutation.path or mutation.path[0] in kept)

    def _tool(self, record: WriteRecord) -> tuple[Connector, Tool]:
        connector = self._catalogue.connector(record.connector)
        tool = None if connector is None else find_tool(connector, record.tool)
        if connector is None or tool is None or tool.gone or tool.fault:
            raise ProtocolViolation(
                f"the worker plans {record.connector[:80]}.{record.tool[:80]}, which is not to be had"
            )
        return connector, tool

    def _collection(self, connector_name: str, name: str) -> tuple[Connector, Collection]:
        connector = self._catalogue.connector(connector_name)
        if connector is not None:
            for collection in connector.collections:
                if collection.name == name:
                    return connector, collection
        raise ProtocolViolation(f"the worker names the unknown collection {connector_name[:80]}.{name[:80]}")

    def _mutations(self, records: tuple[MutationRecord, ...]) -> tuple[Mutation, ...]:
        mutations: list[Mutation] = []
        for record in records:
            tree = None if record.op == "delete" else self._untag(record.value, "a change", self._count)
            if record.op in ("append", "splice", "replace") and not isinstance(tree, list):
                raise ProtocolViolation("the worker changed an array by something that is no list")
            value = None if record.op == "delete" else split(tree)
            mutations.append(Mutation(Op(record.op), record.path, value, record.start, record.remove, record.line))
        return tuple(mutations)

    def _untag(self, text: msgspec.Raw, what: str, newest: int) -> Tree:
        tree = untag(text, what=what, depth=self._depth)
        if any(not 1 <= reference.write <= newest for reference in references(tree)):
            raise ProtocolViolation(f"{what} refers to a write that is not planned before it")
        return tree


def _readers(collection: Collection) -> set[str]:
    return {binding.tool for binding in (collection.get, collection.list, collection.search) if binding is not None}


def _asked_for(entry: Entry, binding: Binding | None, key: Tree) -> bool:
    if binding is None or binding.key is None or entry.tool != binding.tool:
        return False
    asked = exact_json.decode(entry.arguments).get(binding.key)
    return bool(asked == ([key] if binding.many else key))


def _fold_field(name: str, after: Tree, binding: Binding, tool: Tool, arguments: Tree, write: int) -> bool:
    value = after.get(name)
    if any(reference.write >= write for reference in references(value)):
        return False
    if binding.content is not None:
        target, parameter = arguments[binding.content], name
        if binding.many:
            target = target[0]
    else:
        target, parameter = arguments, binding.fields.get(name, name)
        if parameter not in exact_json.decode(tool.input_schema).get("properties", {}):
            return False
    if name in after:
        target[parameter] = value
    else:
        target.pop(parameter, None)
    return True

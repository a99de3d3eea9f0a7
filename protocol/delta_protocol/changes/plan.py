"""A program's recording becomes a plan: the fewest calls, in order, each with its class, inverse and read-back.

Pure. `build_plan` makes a plan, `verify` checks one that was handed in, `completed` takes in before-images that were
read later, `plan_hash` is what an approval is bound to. Source: plan-apply-undo 5.8 and 5.9, three-tools 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from delta_protocol.catalogue.model import Catalogue, Connector, Effect, find_tool
from delta_protocol.changes import gathering
from delta_protocol.changes.binding import recognise
from delta_protocol.changes.calls import Draft, again, complete
from delta_protocol.changes.gathering import Gathered
from delta_protocol.changes.holes import Tree, rename, unpack, writes_of
from delta_protocol.changes.images import NOTHING, Images, entity_name, entity_of, is_known, reader
from delta_protocol.changes.inverses import batch_path, way_back
from delta_protocol.changes.model import (
    EntityRef,
    Hole,
    Path,
    Plan,
    PlannedCall,
    Precondition,
    Recording,
    ResultRef,
    Reversibility,
    Value,
)
from delta_protocol.changes.order import Item, ordered
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_object
from delta_protocol.errors import Invalid


def build_plan(recording: Recording, catalogue: Catalogue) -> Plan:
    """Return the plan of a program run. Raises `Invalid`, with the line, for a change that no tool makes."""
    images = gathering.known_images(recording, catalogue)
    calls = gathering.gather(recording, catalogue)
    order = _order(calls, images)
    places = _places(calls, order)
    planned: list[PlannedCall] = []
    for number, index in enumerate(order, 1):
        call = calls[index]
        draft = Draft(call.connector, call.tool, _renumbered(call, places), call.line, _writes_made(call))
        planned.append(complete(draft, number, images))
    read = {entity_name(change.entity): (change.read_fields, change.complete) for change in recording.changes}
    preconditions = preconditions_of(planned, images, catalogue, read)
    return sealed(Plan(catalogue.number, tuple(planned), preconditions, recording.notes))


def _order(calls: list[Gathered], images: Images) -> list[int]:
    maker = {write: index for index, call in enumerate(calls) for write in call.made}
    items: list[Item] = []
    for index, call in enumerate(calls):
        used = writes_of(call.arguments)
        unknown = used - maker.keys()
        if unknown:
            raise Invalid(
                f"{call.tool} uses something that the program created and deleted again",
                line=call.line,
            )
        subject, opaque = gathering.subject_of(call)
        way = way_back(call.connector, call.tool, call.bound, 0, images)
        after = frozenset(maker[write] for write in used if maker[write] != index)
        operation = call.bound.operation if call.bound is not None else "call"
        group = {"upsert": "update", "edit": "update", "change": "update"}.get(operation, operation)
        final = way.reversibility is Reversibility.R3 and not way.needs
        items.append(Item(call.seq, group, final, after, subject, call.connector.name, opaque))
    order = ordered(items)
    if len(order) != len(calls):
        raise Invalid("the planned calls wait for each other's results")
    return order


def _places(calls: list[Gathered], order: list[int]) -> dict[int, tuple[int, Path]]:
    return {
        write: (number, path) for number, index in enumerate(order, 1) for write, path in _writes_made(calls[index])
    }


def _writes_made(call: Gathered) -> tuple[tuple[int, Path], ...]:
    # A tool called by name answers as it answers; a collection's create speaks of its own entity in a list of them.
    if call.bound is None or call.direct or call.bound.operation != "create" or not call.bound.binding.many:
        return tuple((write, ()) for write in call.made)
    root = batch_path(call.bound.binding)
    return tuple((write, (*root, index)) for index, write in enumerate(call.made))


def _renumbered(call: Gathered, places: Mapping[int, tuple[int, Path]]) -> dict[str, Tree]:
    renamed: dict[str, Tree] = rename(call.arguments, lambda ref: _placed(ref, places))
    return renamed


def _placed(ref: ResultRef, places: Mapping[int, tuple[int, Path]]) -> ResultRef:
    number, own = places[ref.write]
    if not own:
        return ResultRef(number, ref.path)
    # The program's path speaks of a result with one entity in it.
    root, rest = own[:-1], ref.path
    if rest[: len(root)] == root:
        rest = rest[len(root) :]
    while rest[:1] == (0,):
        rest = rest[1:]
    return ResultRef(number, (*own, *rest))


def place(value: Value, plan: Plan) -> Value:
    """Return `value`, whose holes name the recording's writes, with holes that name the plan's calls.

    A hole for a write that vanished from the plan becomes null.
    """
    places = {write: (call.number, path) for call in plan.calls for write, path in call.writes}
    holes: list[Hole] = []
    for hole in value.holes:
        refs = [part for part in hole.parts if isinstance(part, ResultRef)]
        if all(ref.write in places for ref in refs):
            parts = tuple(_placed(part, places) if isinstance(part, ResultRef) else part for part in hole.parts)
            holes.append(msgspec.structs.replace(hole, parts=parts))
    return Value(value.json, tuple(holes))


def preconditions_of(
    calls: Sequence[PlannedCall],
    images: Images,
    catalogue: Catalogue,
    read: Mapping[str, tuple[tuple[str, ...], bool]],
) -> tuple[Precondition, ...]:
    """Return what must still hold when the calls are made: per entity with a reader and an image, one precondition.

    `read`: by entity, the fields the program looked at, and whether the image shows the whole entity.
    """
    wanted: dict[str, tuple[EntityRef, dict[str, None]]] = {}
    for call in calls:
        for entity in _entities(call, catalogue):
            fields = wanted.setdefault(entity_name(entity), (entity, {}))[1]
            fields.update(dict.fromkeys(call.fields))
    out: list[Precondition] = []
    for name, (entity, fields) in wanted.items():
        looked_at, complete_image = read.get(name, ((), True))
        fields.update(dict.fromkeys(looked_at))
        precondition = _precondition(entity, tuple(fields), images, catalogue, complete_image)
        if precondition is not None:
            out.append(precondition)
    return tuple(out)


def _entities(call: PlannedCall, catalogue: Catalogue) -> Iterable[EntityRef]:
    connector = catalogue.connector(call.connector)
    bound = recognise(connector, call.tool, unpack(call.arguments)) if connector is not None else None
    if connector is None or bound is None:
        return
    for key in bound.keys:
        entity = entity_of(connector, bound.collection, key)
        if entity is not None:
            yield entity


def _precondition(
    entity: EntityRef, fields: tuple[str, ...], images: Images, catalogue: Catalogue, complete_image: bool
) -> Precondition | None:
    connector = catalogue.connector(entity.connector)
    collection = next((c for c in connector.collections if c.name == entity.collection), None) if connector else None
    image = images.of(entity)
    read = reader(collection, exact_json.decode(entity.key)) if collection is not None else None
    if collection is None or read is None or not (image is NOTHING or is_known(image)):
        return None
    before = b"null" if image is NOTHING else exact_json.encode(image)
    version = collection.version if complete_image and is_object(image) and collection.version in image else None
    return Precondition(entity, read.tool, read.arguments.json, read.path, before, fields, version)


def completed(plan: Plan, catalogue: Catalogue, learned: Iterable[tuple[EntityRef, Any]]) -> Plan:
    """Return the plan with before-images that were read after it was built (or `NOTHING` where nothing was there).

    Calls that had none are completed anew; their entities become preconditions.
    """
    images = Images.of_preconditions(plan.preconditions)
    for entity, image in learned:
        images.learn(entity, image)
    calls = tuple(again(_connector(catalogue, call), call, images) for call in plan.calls)
    read = {entity_name(p.entity): (p.fields, p.version is not None) for p in plan.preconditions}
    preconditions = preconditions_of(calls, images, catalogue, read)
    return sealed(Plan(plan.catalogue, calls, preconditions, plan.notes))


def verify(plan: Plan, catalogue: Catalogue) -> None:
    """Check a plan that was handed in against the catalogue it names. Raises `Invalid` saying which call and what.

    Nothing in a call but tool, arguments and before-images is believed: all else must be what follows from them.
    """
    if plan.catalogue != catalogue.number:
        raise Invalid(f"the plan was built on catalogue {plan.catalogue}, this is {catalogue.number}")
    if plan.hash != plan_hash(plan):
        raise Invalid("the plan's hash is not the plan's")
    images = Images.of_preconditions(plan.preconditions)
    for number, call in enumerate(plan.calls, 1):
        connector = _connector(catalogue, call)
        tool = find_tool(connector, call.tool)
        if call.number != number:
            raise Invalid(f"call {number} is numbered {call.number}", call=number)
        if tool is None or tool.gone:
            raise Invalid(f"call {number}: {connector.name} has no tool {call.tool!r}", call=number)
        if tool.effect in {Effect.READ, Effect.OFF} and not tool.rules:
            raise Invalid(f"call {number}: {call.tool} is {tool.effect}, it cannot be planned", call=number)
        if any(not 0 < write < number for write in writes_of(unpack(call.arguments))):
            raise Invalid(f"call {number} uses the result of a call that is not made before it", call=number)
        if again(connector, call, images) != call:
            raise Invalid(f"call {number}: class, words, inverse or read-back do not follow from the call", call=number)


def _connector(catalogue: Catalogue, call: PlannedCall) -> Connector:
    connector = catalogue.connector(call.connector)
    if connector is None:
        raise Invalid(f"call {call.number}: there is no connector {call.connector!r}", call=call.number)
    return connector


def sealed(plan: Plan) -> Plan:
    """Return the plan with its hash."""
    return msgspec.structs.replace(plan, hash=plan_hash(plan))


def plan_hash(plan: Plan) -> str:
    """Return the sha256 (hex) over the canonical JSON of everything in the plan but its hash."""
    return exact_json.digest(_canonical(msgspec.structs.replace(plan, hash="")))


def _canonical(value: Any) -> Any:  # noqa: ANN401 - any part of a plan
    if isinstance(value, bytes):
        return exact_json.decode(value)
    if isinstance(value, msgspec.Struct):
        return {name: _canonical(getattr(value, name)) for name in value.__struct_fields__}
    if _is_tuple(value):
        return [_canonical(item) for item in value]
    if is_object(value):
        return {key: _canonical(item) for key, item in value.items()}
    return value


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)

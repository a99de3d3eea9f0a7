"""The plan that takes an applied delta back, with others' later changes left alone (plan-apply-undo 5.13).

Pure: the journal reads the entities first (`reads_needed`) and hands in what it saw. Per field: still what we wrote,
it is restored; already what was before, nothing; something else, it is kept and named, unless forced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from delta_protocol.catalogue.model import Catalogue, Connector
from delta_protocol.changes.binding import Bound, recognise
from delta_protocol.changes.calls import Draft, complete
from delta_protocol.changes.compensate import taken_back
from delta_protocol.changes.conflicts import entity_label
from delta_protocol.changes.holes import Tree
from delta_protocol.changes.images import NOTHING, UNKNOWN, Image, Images, entity_name, entity_of, field_of, is_known
from delta_protocol.changes.inverses import element_by_key
from delta_protocol.changes.model import EntityRef, FieldConflict, Plan, PlannedCall, ReadBack, Reversibility
from delta_protocol.changes.normalise import same
from delta_protocol.changes.plan import preconditions_of, sealed
from delta_protocol.changes.redaction import MARK
from delta_protocol.changes.steps import Progress
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import Invalid


@dataclass(frozen=True, slots=True)
class Undo:
    """`plan` takes back what can be; `kept` names what others changed since; `stays` says what cannot be undone at
    all.
    """

    plan: Plan
    kept: tuple[FieldConflict, ...]
    stays: tuple[str, ...]


@dataclass(slots=True)
class _Work:
    progress: Progress
    catalogue: Catalogue
    after: Mapping[int, Any]
    now: Mapping[int, Any]
    force: frozenset[str]
    kept: list[FieldConflict] = field(default_factory=list[FieldConflict])
    stays: list[str] = field(default_factory=list[str])
    restored: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    drafts: list[tuple[Draft, PlannedCall]] = field(default_factory=list[tuple[Draft, PlannedCall]])


def reads_needed(progress: Progress) -> dict[int, ReadBack]:
    """Return, by call, the read that shows what became of it. Calls whose reader needs a lost result are left out."""
    out: dict[int, ReadBack] = {}
    for call in progress.made():
        if call.read_back is not None and call.inverse is not None:
            try:
                progress.filled(call.read_back.arguments)
            except Invalid:
                continue
            out[call.number] = call.read_back
    return out


def build_undo(
    progress: Progress,
    catalogue: Catalogue,
    after: Mapping[int, Any],
    now: Mapping[int, Any],
    force: Sequence[str] = (),
) -> Undo:
    """Return the plan of inverses of the made calls.

    `after`: by call, the entity as it was read back. `now`: by call, the entity as it is (an image, `NOTHING`,
    `UNKNOWN`). `force` names fields (`T-1.status`) or entities (`T-1`) that are put back although somebody changed
    them since.
    """
    work = _Work(progress, catalogue, after, now, frozenset(force))
    for call in reversed(progress.made()):
        _undo_call(work, call)
    images = _images(work)
    calls = tuple(
        _classed(complete(draft, number, images), original) for number, (draft, original) in enumerate(work.drafts, 1)
    )
    preconditions = preconditions_of(calls, images, catalogue, {})
    notes = tuple(f"stays: {text}" for text in work.stays)
    return Undo(sealed(Plan(catalogue.number, calls, preconditions, notes)), tuple(work.kept), tuple(work.stays))


def _images(work: _Work) -> Images:
    """Return the entities as they are now: what the undo itself would be taken back to."""
    images = Images()
    for call in work.progress.plan.calls:
        for entity, image in _entities(work, call, work.now.get(call.number, UNKNOWN)):
            images.learn(entity, image)
    return images


def _entities(work: _Work, call: PlannedCall, seen: Image) -> list[tuple[EntityRef, Image]]:
    """Return the entities that the call's reader shows, under the keys they have now."""
    connector, read = work.catalogue.connector(call.connector), call.read_back
    if connector is None or read is None or seen is UNKNOWN:
        return []
    bound = recognise(connector, call.tool, work.progress.filled(call.arguments))
    get = bound.collection.get if bound is not None else None
    if bound is None or get is None or get.tool != read.tool or get.key is None:
        return []
    keys = work.progress.filled(read.arguments).get(get.key)
    if not _reads_batch(bound, call):
        entity = entity_of(connector, bound.collection, keys[0] if get.many and is_array(keys) else keys)
        return [] if entity is None else [(entity, seen)]
    items = [item for item in seen if is_object(item)] if is_array(seen) else []
    by_key = {str(item.get(bound.collection.key)): item for item in items}
    named = [(entity_of(connector, bound.collection, key), by_key.get(str(key), NOTHING)) for key in bound.keys]
    return [(entity, image) for entity, image in named if entity is not None]


def _reads_batch(bound: Bound, call: PlannedCall) -> bool:
    return len(bound.keys) > 1 and call.read_back is not None and bool(call.read_back.contains)


def _is_entity_image(call: PlannedCall) -> bool:
    return call.read_back is not None and not any(
        name == "" for name, _ in (*call.read_back.contains, *call.read_back.lacks)
    )


def _classed(call: PlannedCall, original: PlannedCall) -> PlannedCall:
    # Taking back exactly what we made, still as we made it, loses nothing that was there before us.
    if original.reversibility is Reversibility.R0 and call.reversibility is Reversibility.R2:
        return msgspec.structs.replace(call, reversibility=Reversibility.R0)
    return call


def _undo_call(work: _Work, call: PlannedCall) -> None:
    if call.inverse is None:
        work.stays.append(f"call {call.number}: {call.words} ({call.irreversible_because or 'nothing takes it back'})")
        return
    connector = work.catalogue.connector(call.connector)
    if connector is None:
        work.stays.append(f"call {call.number}: {call.words} (connector {call.connector} is gone)")
        return
    try:
        arguments: dict[str, Tree] = work.progress.filled(call.inverse.arguments)
    except Invalid as error:
        work.stays.append(f"call {call.number}: {call.words} ({error.message})")
        return
    if MARK in str(arguments):
        work.stays.append(f"call {call.number}: {call.words} (it holds a secret that was not kept)")
        return
    now = work.now.get(call.number, UNKNOWN)
    if call.operation == "update":
        arguments = _restoring(work, connector, call, arguments, now)
    elif taken_back(work.progress, call, now) is True or _changed_by_others(work, call, now):
        return
    if arguments:
        work.drafts.append((Draft(connector, call.inverse.tool, arguments, call.line), call))


def _restoring(
    work: _Work, connector: Connector, call: PlannedCall, arguments: dict[str, Tree], now: Image
) -> dict[str, Tree]:
    """Return the inverse update's arguments without what others changed and what is restored already."""
    assert call.inverse is not None
    bound = recognise(connector, call.inverse.tool, arguments)
    if bound is None or bound.elements is not None or not is_known(now):
        return arguments
    keep = dict(arguments)
    before = work.progress.image_before(call)
    name = entity_name(call.entity) if call.entity is not None else ""
    for entity_field in bound.fields:
        verdict = _field(work, call, entity_field, before, now)
        if not verdict or (name, entity_field) in work.restored:
            keep.pop(bound.binding.fields[entity_field], None)
        else:
            work.restored.add((name, entity_field))
    left = recognise(connector, call.inverse.tool, keep)
    return keep if left is not None and left.fields else {}


def _field(work: _Work, call: PlannedCall, name: str, before: Image, now: Image) -> bool:
    """Return whether the field is to be restored."""
    had, was = field_of(before, name) if is_known(before) else (False, None)
    has, current = field_of(now, name)
    if (had and has and same(was, current) and same(current, was)) or (was is None and current is None and has == had):
        return False
    ours = _ours(work, call, name)
    if ours is not UNKNOWN and has and same(ours, current) and same(current, ours):
        return True
    label = entity_label(call.entity) if call.entity is not None else call.connector
    if {f"{label}.{name}" if name else label, label} & work.force:
        return True
    work.kept.append(FieldConflict(label, name, _json(ours), _json(current), _json(was)))
    return False


def _ours(work: _Work, call: PlannedCall, name: str) -> Image:
    after = work.after.get(call.number, UNKNOWN)
    if is_known(after):
        return field_of(after, name)[1]
    read = call.read_back
    expect: dict[str, Image] = work.progress.filled(read.expect) if read is not None else {}
    return expect.get(name, UNKNOWN)


def _changed_by_others(work: _Work, call: PlannedCall, now: Image) -> bool:
    """Return whether what we made is no longer as we made it, so that it must be kept (unless forced)."""
    if not is_known(now) or call.read_back is None:
        return False
    after = work.after.get(call.number, UNKNOWN)
    label = entity_label(call.entity) if call.entity is not None else call.connector
    if call.operation == "create" and is_known(after) and (_is_entity_image(call) or _entities(work, call, now)):
        if same(after, now) or label in work.force or _made_label(work, call) in work.force:
            return False
        work.kept.append(FieldConflict(_made_label(work, call), "", _json(after), _json(now), b"null"))
        return True
    if call.operation == "add" and is_known(after):
        return _element_changed(work, call, after, now, label)
    return False


def _made_label(work: _Work, call: PlannedCall) -> str:
    assert call.inverse is not None
    arguments = work.progress.filled(call.inverse.arguments)
    key = next(iter(arguments.values()), None)
    return key if isinstance(key, str) else exact_json.encode(key).decode()


def _element_changed(work: _Work, call: PlannedCall, after: Image, now: Image, label: str) -> bool:
    connector = work.catalogue.connector(call.connector)
    if connector is None or call.inverse is None:
        return False
    bound = recognise(connector, call.inverse.tool, work.progress.filled(call.inverse.arguments))
    if bound is None or bound.elements is None or not bound.elements.key:
        return False
    for key in bound.element_keys:
        ours = element_by_key(after, bound.elements.field, bound.elements.key, key)
        theirs = element_by_key(now, bound.elements.field, bound.elements.key, key)
        forced = {label, f"{label}.{bound.elements.field}"} & work.force
        if ours is not None and theirs is not None and not same(ours, theirs) and not forced:
            work.kept.append(FieldConflict(label, bound.elements.field, _json(ours), _json(theirs), b"null"))
            return True
        if theirs is None:
            # Somebody removed it already.
            return True
    return False


def _json(value: Image) -> bytes:
    return b"null" if value is UNKNOWN or value is NOTHING else exact_json.encode(value)

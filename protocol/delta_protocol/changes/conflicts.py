"""Whether the world is still what a plan was made from: every entity read again, compared field by field.

Pure. Default comparison: the fields written and those the program looked at (plan-apply-undo 5.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delta_protocol.changes.holes import Tree, unpack
from delta_protocol.changes.images import NOTHING, entity_name, field_of, is_known
from delta_protocol.changes.model import EntityRef, FieldConflict, PlannedCall, Precondition
from delta_protocol.changes.normalise import same
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_object
from delta_protocol.wire.message import Json


def conflicts(precondition: Precondition, now: Any, wanted: Mapping[str, Json]) -> tuple[FieldConflict, ...]:  # noqa: ANN401
    """Return how the entity `now` (an image, or `NOTHING`) differs from what the precondition says, per field.

    `wanted`: by field, what the plan would set; null in the conflict where the program only read the field.
    """
    name = entity_label(precondition.entity)
    before = exact_json.decode(precondition.before)
    if before is None:
        return () if now is NOTHING else (FieldConflict(name, "", b"null", _json(now), _first(wanted)),)
    if now is NOTHING:
        return (FieldConflict(name, "", precondition.before, b"null", _first(wanted)),)
    if _same_version(precondition.version, before, now):
        return ()
    out: list[FieldConflict] = []
    for field in precondition.fields:
        had, was = field_of(before, field)
        has, value = field_of(now, field)
        if not _alike(had, was, has, value):
            out.append(FieldConflict(name, field, _json(was), _json(value), wanted.get(field, b"null")))
    return tuple(out)


def _alike(had: bool, was: Any, has: bool, now: Any) -> bool:  # noqa: ANN401 - any JSON values
    return (same(was, now) and same(now, was)) if had and has else was is None and now is None


def _same_version(version: str | None, before: Any, now: Any) -> bool:  # noqa: ANN401 - any JSON values
    if version is None or not is_object(before) or not is_object(now):
        return False
    return before.get(version) is not None and before.get(version) == now.get(version)


def _json(value: Any) -> Json:  # noqa: ANN401 - any JSON value
    return exact_json.encode(value) if is_known(value) else b"null"


def _first(wanted: Mapping[str, Json]) -> Json:
    return next(iter(wanted.values()), b"null")


def wanted_by(calls: Sequence[PlannedCall], entity: EntityRef) -> dict[str, Json]:
    """Return, by field, what the plan's calls set on the entity (null where that is not one value)."""
    wanted: dict[str, Json] = {}
    for call in calls:
        if call.entity is None or entity_name(call.entity) != entity_name(entity):
            continue
        expect: Tree = unpack(call.read_back.expect) if call.read_back is not None else {}
        for field in call.fields:
            value = expect.get(field) if is_object(expect) else None
            plain = value is not None and field in expect and not _has_holes(call, field)
            wanted[field] = exact_json.encode(value) if plain else b"null"
    return wanted


def _has_holes(call: PlannedCall, field: str) -> bool:
    return call.read_back is not None and any(hole.path[:1] == (field,) for hole in call.read_back.expect.holes)


def entity_label(entity: EntityRef) -> str:
    """Return the entity as people name it: its key, without quotes where it is text."""
    key = exact_json.decode(entity.key)
    return key if isinstance(key, str) else entity.key.decode()

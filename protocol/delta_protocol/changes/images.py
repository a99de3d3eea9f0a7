"""Before-images: what is known of each entity as it stood before the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from delta_protocol.catalogue.model import Collection, Connector
from delta_protocol.changes.binding import entity_path, key_arguments
from delta_protocol.changes.holes import Tree, dig, fillers, pack
from delta_protocol.changes.model import EntityRef, Precondition, ReadBack
from delta_protocol.codecs import exact_json

Image = Any
"""A decoded entity, `NOTHING` or `UNKNOWN`."""

NOTHING = object()
"""Stands for an entity that is known not to be there."""

UNKNOWN = object()
"""Stands for an entity of which nothing is known."""


@dataclass(slots=True)
class Images:
    """Before-images by entity. A value is the decoded entity or `NOTHING`."""

    _known: dict[str, Any] = field(default_factory=dict[str, Any])
    _deleted: set[str] = field(default_factory=set[str])

    def learn(self, entity: EntityRef, image: Any) -> None:  # noqa: ANN401 - a JSON value or NOTHING
        """Keep the first image of the entity; later ones would show our own changes."""
        self._known.setdefault(entity_name(entity), image)

    def of(self, entity: EntityRef | None) -> Any:  # noqa: ANN401 - a JSON value, NOTHING or UNKNOWN
        """Return the entity's image."""
        return UNKNOWN if entity is None else self._known.get(entity_name(entity), UNKNOWN)

    def delete(self, entity: EntityRef) -> None:
        """Keep that a call of the plan deletes the entity: a later one finds nothing there."""
        self._deleted.add(entity_name(entity))

    def was_deleted(self, entity: EntityRef) -> bool:
        """Return whether an earlier call of the plan deletes the entity."""
        return entity_name(entity) in self._deleted

    @classmethod
    def of_preconditions(cls, preconditions: Iterable[Precondition]) -> Images:
        """Return what a plan's preconditions say."""
        images = cls()
        for precondition in preconditions:
            before = exact_json.decode(precondition.before)
            images.learn(precondition.entity, NOTHING if before is None else before)
        return images


def entity_name(entity: EntityRef) -> str:
    """Return one text per entity: for locks, look-ups and sorting."""
    key = exact_json.canonical(exact_json.decode(entity.key)).decode()
    return f"{entity.connector}\x1f{entity.collection}\x1f{key}"


def entity_of(connector: Connector, collection: Collection, key: Tree) -> EntityRef | None:
    """Return the entity's name, or None while its key is not known."""
    if key is None or any(True for _ in fillers(key)):
        return None
    return EntityRef(connector.name, collection.name, exact_json.encode(key))


def reader(collection: Collection, key: Tree) -> ReadBack | None:
    """Return how one entity is read, without expectations; None where the collection has no reader for one entity."""
    if collection.get is None or key is None:
        return None
    return ReadBack(collection.get.tool, pack(key_arguments(collection.get, key)), entity_path(collection.get))


def listed(collection: Collection, items: tuple[dict[str, Tree], ...], *, absent: bool) -> ReadBack | None:
    """Return the read of the whole list that must hold `items`, or none of them; None where there is no such list."""
    lister = collection.list
    if lister is None or lister.cursor is not None or not items:
        return None
    pairs = tuple(("", pack(item[""] if set(item) == {""} else item)) for item in items)
    if absent:
        return ReadBack(lister.tool, pack({}), lister.result, lacks=pairs)
    return ReadBack(lister.tool, pack({}), lister.result, contains=pairs)


def field_of(image: Any, name: str) -> tuple[bool, Any]:  # noqa: ANN401 - any JSON value
    """Return (whether the image has the field, its value); the field ``""`` is the whole image."""
    if name == "":
        return True, image
    return dig(image, (name,))


def is_known(image: Any) -> bool:  # noqa: ANN401 - a JSON value, NOTHING or UNKNOWN
    """Return whether the image is an entity that is there."""
    return image is not NOTHING and image is not UNKNOWN

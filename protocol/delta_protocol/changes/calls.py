"""One planned call, completed: from tool, arguments and before-images to class, words, inverse, read-back and probe.

The same function builds a plan and checks one that was handed in, so that nothing about a call rests on anybody's word.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_protocol.catalogue.model import Connector
from delta_protocol.changes.binding import Bound, recognise
from delta_protocol.changes.holes import Tree, pack, unpack
from delta_protocol.changes.images import NOTHING, Images, entity_of
from delta_protocol.changes.inverses import way_back
from delta_protocol.changes.model import EntityRef, Path, PlannedCall
from delta_protocol.changes.observing import probe, read_back
from delta_protocol.changes.words import of_bound, of_unbound


@dataclass(frozen=True, slots=True)
class Draft:
    """A call before it is completed. Holes in `arguments` name plan numbers."""

    connector: Connector
    tool: str
    arguments: dict[str, Tree]
    line: int = 0
    writes: tuple[tuple[int, Path], ...] = ()


def complete(draft: Draft, number: int, images: Images) -> PlannedCall:
    """Return the planned call that follows from the draft and what is known of the entities."""
    connector, tool = draft.connector, draft.tool
    bound = recognise(connector, tool, draft.arguments)
    way = way_back(connector, tool, bound, number, images)
    if bound is None:
        return PlannedCall(
            number=number,
            connector=connector.name,
            tool=tool,
            arguments=pack(draft.arguments),
            reversibility=way.reversibility,
            words=of_unbound(draft.arguments),
            irreversible_because=way.because,
            line=draft.line,
            writes=draft.writes,
        )
    entity = _entity(connector, bound)
    image = images.of(entity)
    if bound.operation == "delete":
        for key in bound.keys:
            if (deleted := entity_of(connector, bound.collection, key)) is not None:
                images.delete(deleted)
    operation = _operation(bound, image)
    return PlannedCall(
        number=number,
        connector=connector.name,
        tool=tool,
        arguments=pack(draft.arguments),
        reversibility=way.reversibility,
        words=of_bound(bound, image),
        entity=entity,
        operation=operation,
        fields=_fields(bound),
        inverse=way.inverse,
        irreversible_because=way.because,
        read_back=read_back(bound, number, image),
        probe=probe(bound, number, image),
        line=draft.line,
        writes=draft.writes,
        before_from=way.needs,
    )


def _entity(connector: Connector, bound: Bound) -> EntityRef:
    # Without a key of its own the collection stands in: such calls of one collection are made one delta after another.
    return entity_of(connector, bound.collection, bound.key) or EntityRef(
        connector.name, bound.collection.name, b"null"
    )


def _operation(bound: Bound, image: object) -> str:
    if bound.operation == "upsert":
        return "create" if image is NOTHING else "update"
    return {"edit": "update", "change": "update"}.get(bound.operation, bound.operation)


def _fields(bound: Bound) -> tuple[str, ...]:
    if bound.elements is not None:
        return (bound.elements.field,)
    if bound.operation == "edit" and bound.collection.update is not None:
        return tuple(bound.collection.update.fields)
    return tuple(bound.fields)


def again(connector: Connector, call: PlannedCall, images: Images) -> PlannedCall:
    """Return `call` completed anew from its tool, arguments and the images alone."""
    draft = Draft(connector, call.tool, unpack(call.arguments), call.line, call.writes)
    return complete(draft, call.number, images)

"""Planning an undo: read what the delta touched, as it is now, and derive the plan that takes it back."""

from __future__ import annotations

import time

import msgspec

from delta_actors.journal.connectors import Connectors
from delta_actors.journal.proposals import read_image
from delta_actors.journal.records import Proposal, images_after, progress_of
from delta_actors.journal.store import Record
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.ids import new_delta_id
from delta_protocol.changes.images import UNKNOWN, Image
from delta_protocol.changes.model import Value
from delta_protocol.changes.steps import Progress
from delta_protocol.changes.undo import build_undo, reads_needed
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Refused
from delta_protocol.wire.journal import Begin


async def undo_of(
    record: Record, catalogue: Catalogue, connectors: Connectors, force: tuple[str, ...], *, by_person: bool
) -> Proposal:
    """Return the undo as a proposal of its own. Raises `Refused` where nothing can be undone, or reading fails."""
    progress = progress_of(record)
    if not progress.made():
        raise Refused(f"nothing that {record.id} made stands: there is nothing to undo")
    now = await _images_now(progress, connectors, record.id)
    undo = build_undo(progress, catalogue, images_after(record), now, force)
    if not undo.plan.calls and not undo.kept:
        raise Refused(f"nothing of {record.id} can be undone: " + ("; ".join(undo.stays) or "it is as before"))
    return Proposal(
        id=new_delta_id(),
        begin=Begin(record.conversation, "", "", catalogue.number, 0, 0),
        principal=record.principal,
        created=time.time(),
        plan=undo.plan,
        catalogue=catalogue,
        undo_of=record.id,
        kept=undo.kept,
        by_person=by_person,
    )


async def _images_now(progress: Progress, connectors: Connectors, delta: str) -> dict[int, Image]:
    now: dict[int, Image] = {}
    seen: dict[bytes, Image] = {}
    for number, read in reads_needed(progress).items():
        call = progress.call(number)
        filled = Value(exact_json.encode(progress.filled(read.arguments)))
        place = exact_json.encode([call.connector, read.tool, filled.json.decode(), list(read.path)])
        if place not in seen:
            known = msgspec.structs.replace(read, arguments=filled)
            seen[place] = await read_image(connectors, call.connector, known)
        if seen[place] is UNKNOWN:
            raise Refused(f"{call.connector}.{read.tool} did not answer: nothing of {delta} was undone")
        now[number] = seen[place]
    return now

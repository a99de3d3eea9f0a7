"""From a plan to what is stored of it, and from what is stored back to the machine that applies it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import msgspec

from delta_actors.journal.planning import fingerprint
from delta_actors.journal.proposals import checker, pins_of
from delta_actors.journal.store import CallRecord, Fixed, Record
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.apply import Apply
from delta_protocol.changes.cards import render
from delta_protocol.changes.images import Image
from delta_protocol.changes.model import CallState, DeltaState, FieldConflict, Plan, PlannedCall, Read, Value
from delta_protocol.changes.modes import Decision, Verdict
from delta_protocol.changes.redaction import Redactor, redacted_plan, secrets_in_code, secrets_of
from delta_protocol.changes.states import MADE
from delta_protocol.changes.steps import Progress
from delta_protocol.codecs import exact_json
from delta_protocol.wire.journal import Begin
from delta_protocol.wire.message import Json, Principal

NULL = Value(b"null")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that was taken in, with where it comes from. `created`: seconds since the epoch. `by_person`: a person
    at the command line asked for it, which is all the approval that an asking mode wants."""

    id: str
    begin: Begin
    principal: str
    created: float
    plan: Plan
    catalogue: Catalogue
    returned: Value = NULL
    reads: tuple[Read, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    undo_of: str | None = None
    kept: tuple[FieldConflict, ...] = ()
    by_person: bool = False


def record_of(proposal: Proposal, decision: Decision, expiry: float) -> Record:
    """Return the record to store: its state by `decision`, its texts without secrets. `expiry` in seconds."""
    asks = decision.verdict is Verdict.ASK and not proposal.by_person
    state = DeltaState.WAITING if asks or proposal.dry_run else DeltaState.PLANNED
    reason = f"waits for approval: {decision.why}" if asks else ""
    if decision.verdict is Verdict.REFUSE:
        state, reason = DeltaState.REFUSED, f"refused: {decision.why}"
    elif not proposal.plan.calls:
        changed = (f"{kept.entity}.{kept.field}" if kept.field else kept.entity for kept in proposal.kept)
        state, reason = DeltaState.REFUSED, f"changed since by someone else: {', '.join(changed)}"
    now = time.time()
    begin = proposal.begin
    return Record(
        id=proposal.id,
        state=state,
        principal=proposal.principal,
        conversation=begin.conversation,
        fingerprint="" if proposal.undo_of else fingerprint(begin, Principal(proposal.principal, "")),
        created=proposal.created,
        changed=now,
        fixed=_fixed(proposal),
        calls=tuple(CallRecord(call.number, reversibility=call.reversibility) for call in proposal.plan.calls),
        expires=now + expiry,
        reason=reason,
        needs_person=asks,
        undo_of=proposal.undo_of,
        approved_by="operator" if proposal.by_person else "",
        conflicts=proposal.kept,
    )


def _fixed(proposal: Proposal) -> Fixed:
    begin, plan = proposal.begin, proposal.plan
    redactor = Redactor((*secrets_of(plan), *secrets_in_code(begin.code)))
    kept = redacted_plan(plan, redactor)
    pins = pins_of(plan, proposal.catalogue)
    return Fixed(
        code=redactor.text(begin.code),
        options=redactor.text(begin.options),
        frozen_time=begin.frozen_time,
        seed=begin.seed,
        catalogue=begin.catalogue,
        plan=kept,
        returned=msgspec.structs.replace(proposal.returned, json=redactor.json(proposal.returned.json)),
        reads=tuple(_redacted_read(read, redactor) for read in proposal.reads),
        notes=tuple(redactor.text(note) for note in dict.fromkeys((*plan.notes, *proposal.notes))),
        card=redactor.text(render(proposal.id, plan, undo_of=proposal.undo_of)),
        pins=tuple(pins.get(number, "") for call in plan.calls for number in (call.number, -call.number)),
        redacted=any(a.arguments != b.arguments for a, b in zip(kept.calls, plan.calls, strict=True))
        or redactor.text(begin.code) != begin.code,
    )


def _redacted_read(read: Read, redactor: Redactor) -> Read:
    return msgspec.structs.replace(read, arguments=redactor.json(read.arguments), result=redactor.json(read.result))


def ended_program(delta: str, begin: Begin, principal: str, created: float, reason: str, returned: Value) -> Record:
    """Return the record of a program without a plan: failed with `reason`, or with nothing to change."""
    redactor = Redactor(secrets_in_code(begin.code))
    fixed = Fixed(
        code=redactor.text(begin.code),
        options=redactor.text(begin.options),
        catalogue=begin.catalogue,
        returned=msgspec.structs.replace(returned, json=redactor.json(returned.json)),
        redacted=redactor.text(begin.code) != begin.code,
    )
    return Record(
        id=delta,
        state=DeltaState.FAILED if reason else DeltaState.APPLIED,
        principal=principal,
        conversation=begin.conversation,
        fingerprint=fingerprint(begin, Principal(principal, "")),
        created=created,
        changed=time.time(),
        fixed=fixed,
        reason=redactor.text(reason),
    )


def stored_pins(fixed: Fixed) -> dict[int, str]:
    """Return the digests of the plan's tools when it was made; see `proposals.pins_of`."""
    pins: dict[int, str] = {}
    for call, own, back in zip(fixed.plan.calls, fixed.pins[::2], fixed.pins[1::2], strict=True):
        pins |= {number: pin for number, pin in ((call.number, own), (-call.number, back)) if pin}
    return pins


def machine_of(record: Record, catalogue: Catalogue, plan: Plan | None = None) -> Apply:
    """Return the machine as far as the record says it came; `plan` in place of the stored one, if that is redacted."""
    return Apply(plan or record.fixed.plan, checker(catalogue), states=_states(record), results=_results(record))


def progress_of(record: Record) -> Progress:
    """Return what is known of a stored delta's calls, for planning its undo."""

    def unchecked(_: PlannedCall, arguments: Json) -> Json:
        return arguments

    return Progress(record.fixed.plan, unchecked, _states(record), _results(record))


def images_after(record: Record) -> dict[int, Image]:
    """Return the entities as they were read back, by call."""
    return {call.number: exact_json.decode(call.after) for call in record.calls if call.after is not None}


def nothing_left_out(undo: Record, original: Record) -> bool:
    """Return whether the undo takes back everything that the original made."""
    calls = original.fixed.plan.calls
    stays = any(call.state in MADE and calls[call.number - 1].inverse is None for call in original.calls)
    return not undo.conflicts and not stays


def _states(record: Record) -> dict[int, CallState]:
    return {call.number: call.state for call in record.calls}


def _results(record: Record) -> dict[int, Any]:
    return {call.number: exact_json.decode(call.result) for call in record.calls if call.result is not None}

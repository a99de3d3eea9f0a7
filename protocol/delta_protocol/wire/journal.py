"""Messages to the journal, which owns deltas: their plans, approvals, calls, outcomes and undo."""

from __future__ import annotations

import msgspec

from delta_protocol.changes.model import CallState, DeltaState, FieldConflict, Plan, Read, Value
from delta_protocol.wire.message import Json, Request


class CallReport(msgspec.Struct, frozen=True, array_like=True):
    """One call of a delta as it stands. `words` says what it does; `detail` why it is in this state."""

    number: int
    connector: str
    tool: str
    words: str
    state: CallState
    reversibility: str
    detail: str = ""
    undo: str = ""
    """How it is undone, or why it cannot be."""
    result: Json | None = None
    """The decoded result, once acked (stage-local; long results are cut by the reader, not here)."""


class DeltaReport(msgspec.Struct, frozen=True, array_like=True):
    """A delta as the journal knows it: what is answered, printed and shown is made of this and nothing else.

    Times are seconds since the epoch; `duration` is seconds spent applying.
    """

    id: str
    state: DeltaState
    calls: tuple[CallReport, ...] = ()
    created: float = 0.0
    changed: float = 0.0
    duration: float = 0.0
    verified: int = 0
    differs: int = 0
    unverifiable: int = 0
    undoable: int = 0
    undo_of: str | None = None
    undone_by: str | None = None
    reason: str = ""
    """The first error, the refusal or the approval that is waited for."""
    conflicts: tuple[FieldConflict, ...] = ()
    card: str = ""
    """The plan in words (plan-apply-undo 5.16)."""
    returned: Json | None = None
    """The program's value with every hole filled, once that is possible."""
    notes: tuple[str, ...] = ()
    same_as: float | None = None
    """Set when this answers a repeated program: how many seconds ago the first ran (5.15)."""
    expires: float | None = None
    code: str = ""
    call_count: int = 0
    """How many calls it has, also where `calls` are left out (in a page)."""


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """`repeated` answers the request; otherwise run the program under `delta`."""

    delta: str
    repeated: DeltaReport | None = None


class Begin(Request[Begun], frozen=True):
    """A program is about to run. A repeat within ten minutes gets the first delta's report instead (5.15).

    `frozen_time` (ms) and `seed` are kept so that the plan can be derived again.
    """

    conversation: str
    code: str
    options: str
    """Everything besides the code that makes two requests the same (canonical JSON)."""
    catalogue: int
    frozen_time: int
    seed: int
    again: bool = False
    dry_run: bool = False
    proposed: str = ""
    """The delta's name, so that whoever asks can end it also where the answer never came; empty: a new one."""


class Propose(Request[DeltaReport], frozen=True):
    """Hand in the plan of `delta`. Checks it, decides by mode: the report's state is `planned` (may be applied at
    once), `waiting` (needs a person; also for a dry run, so that it can be applied later) or `refused`."""

    delta: str
    plan: Plan
    returned: Value
    reads: tuple[Read, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


class Abandon(Request[DeltaReport], frozen=True):
    """The program failed or changed nothing: `delta` ends without a plan. Empty `reason`: nothing to change."""

    delta: str
    reason: str = ""
    returned: Json | None = None
    reads: tuple[Read, ...] = ()


class Apply(Request[DeltaReport], frozen=True):
    """Make the calls of a `planned` or approved delta. Answers at the caller's deadline with the state then reached;
    the apply itself belongs to the journal and goes on to its own end. An explicit cancel turns it back (5.10)."""

    delta: str


class Replanned(msgspec.Struct, frozen=True, array_like=True):
    """The program as it was submitted."""

    code: str


class Replan(Request[Replanned], frozen=True):
    """What is needed to run a waiting or refused delta's program again on fresh reads (`onto: "now"`)."""

    delta: str


class Undo(Request[DeltaReport], frozen=True):
    """Undo an applied delta, as a delta of its own. `force` names fields (`T-1.status`) that are put back although
    somebody changed them since. The report is the new delta's."""

    delta: str
    force: tuple[str, ...] = ()


class Approve(Request[DeltaReport], frozen=True):
    """A person approves a waiting delta. Accepted from the operator's link, and from transport for an elicitation
    that a person answered. Does not apply."""

    delta: str
    channel: str


class Decline(Request[DeltaReport], frozen=True):
    """A person declines a waiting delta."""

    delta: str
    channel: str
    reason: str = ""


class Settle(Request[DeltaReport], frozen=True):
    """Settle an interrupted delta: `finish` or `roll_back`."""

    delta: str
    resolve: str


class GetDelta(Request[DeltaReport], frozen=True):
    """One delta of this principal (any, for the operator). `NotFound` with nearest ids."""

    delta: str


class DeltaPage(msgspec.Struct, frozen=True, array_like=True):
    """`more`: whether there are older ones."""

    deltas: tuple[DeltaReport, ...]
    more: bool = False


class ListDeltas(Request[DeltaPage], frozen=True):
    """Deltas, newest first; `before` is the id to go on after. Reports in a page carry no
    calls, but all their figures."""

    before: str | None = None
    limit: int = 20


Inbox = Begin | Propose | Abandon | Apply | Replan | Undo | Approve | Decline | Settle | GetDelta | ListDeltas

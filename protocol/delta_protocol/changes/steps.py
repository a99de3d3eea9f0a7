"""What an apply asks the outside to do, one step at a time, and what it knows so far.

The machine in `apply.py` is a generator: it yields a step, is sent the answer, and never waits, reads a clock or
writes a file itself. `Save` must be durable before it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from delta_protocol.changes.absence import says_absent
from delta_protocol.changes.holes import fill_tree, unpack
from delta_protocol.changes.images import NOTHING, UNKNOWN, entity_name, is_known
from delta_protocol.changes.model import (
    CallState,
    DeltaState,
    FieldConflict,
    Plan,
    PlannedCall,
    ReadBack,
    Reversibility,
    Value,
)
from delta_protocol.changes.readback import Expected, image_at, superseded, unfilled
from delta_protocol.changes.states import MADE
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_object
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome


class CallChange(msgspec.Struct, frozen=True, array_like=True):
    """What is to be stored about one call; None leaves what was stored. `after`: the entity as read back."""

    state: CallState
    detail: str | None = None
    result: Json | None = None
    after: Json | None = None


@dataclass(frozen=True, slots=True)
class Save:
    """Store durably: the delta's new state (None: unchanged) and its calls', in one transaction. Answered with None."""

    state: DeltaState | None = None
    calls: Mapping[int, CallChange] = field(default_factory=dict[int, CallChange])
    reason: str | None = None
    conflicts: tuple[FieldConflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """Make a write. `number` is the call's; `back`: it takes that call back. Answered with a `Reply`."""

    number: int
    connector: str
    tool: str
    arguments: Json
    back: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Make a read. Answered with a `Reply`."""

    connector: str
    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds. Answered with whether there was time for it.

    `to_send`: what follows is a call, so there is no waiting on once the delta is turned back.
    """

    seconds: float
    to_send: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A connector's answer; `result` is the decoded result, None unless the tool answered without error."""

    outcome: Outcome
    result: Json | None = None
    message: str = ""
    retry_after: float | None = None


Step = Save | Send | Look | Pause
ReturnT = TypeVar("ReturnT")
Steps = Generator[Step, Any, ReturnT]
Check = Callable[[PlannedCall, Json], Json]
"""Validates a call's filled arguments against its tool's schema; returns them (converted); raises `Invalid`."""


@dataclass(slots=True)
class Progress:
    """One delta while it is applied. `before`: images by entity, as read right before the first call."""

    plan: Plan
    check: Check
    states: dict[int, CallState] = field(default_factory=dict[int, CallState])
    results: dict[int, Any] = field(default_factory=dict[int, Any])
    before: dict[str, Any] = field(default_factory=dict[str, Any])
    turn_back: bool = False
    """Set from outside: the client cancelled, or its deadline passed."""
    unwanted: bool = False
    """Set from outside: the client cancelled."""
    reason: str = ""
    unread: str = ""
    """Why the last look showed nothing."""

    def __post_init__(self) -> None:
        for call in self.plan.calls:
            self.states.setdefault(call.number, CallState.PLANNED)
        for precondition in self.plan.preconditions:
            image = exact_json.decode(precondition.before)
            self.before.setdefault(entity_name(precondition.entity), NOTHING if image is None else image)

    def call(self, number: int) -> PlannedCall:
        """Return the call of that number."""
        return self.plan.calls[number - 1]

    def made(self) -> list[PlannedCall]:
        """Return the calls that were made and stand, in order."""
        return [call for call in self.plan.calls if self.states[call.number] in MADE]

    def past_return(self) -> bool:
        """Return whether something was made that cannot be taken back."""
        return any(call.reversibility is Reversibility.R3 for call in self.made())

    def image_before(self, call: PlannedCall) -> Any:  # noqa: ANN401 - an image
        """Return the call's entity before the plan."""
        return UNKNOWN if call.entity is None else self.before.get(entity_name(call.entity), UNKNOWN)

    def was_there(self, call: PlannedCall) -> bool:
        """Return whether a reader showed the call's entity before the plan."""
        return is_known(self.image_before(call))

    def filled(self, value: Value) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value with results filled in. Raises `Invalid` for a part that is missing."""
        return fill_tree(unpack(value), self.results)

    def expected(self, read: ReadBack) -> Expected:
        """Return the expectations with results filled in. Raises `Invalid` for a part that is missing."""
        return self.filled_expectations(unfilled(read))

    def filled_expectations(self, expected: Expected) -> Expected:
        """Return expectations with results filled in. Raises `Invalid` for a part that is missing."""
        results = self.results
        return Expected(
            fill_tree(expected.expect, results),
            expected.absent,
            tuple((name, _known_part(tree, results)) for name, tree in expected.contains),
            tuple((name, fill_tree(tree, results)) for name, tree in expected.lacks),
            expected.changed,
            expected.anything,
        )

    def left_to_show(self) -> dict[int, Expected | None]:
        """Return what each standing call's read-back has to show now, later calls taken into account."""
        return superseded(self.made())


def _known_part(element: Any, results: Mapping[int, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Fill an element; a field that the tool's result does not give is left out, if others are there to know it by."""
    if not is_object(element):
        return fill_tree(element, results)
    known: dict[str, Any] = {}
    for key, tree in element.items():
        try:
            known[key] = fill_tree(tree, results)
        except Invalid:
            if len(element) == 1:
                raise
    return known


def save_call(progress: Progress, number: int, change: CallChange, **delta: Any) -> Steps[None]:  # noqa: ANN401
    """Move one call to a new state, durably."""
    progress.states[number] = change.state
    if change.result is not None:
        progress.results[number] = exact_json.decode(change.result)
    yield Save(calls={number: change}, **delta)


def look(progress: Progress, connector: str, read: ReadBack, *, was_there: bool = False) -> Steps[Any]:
    """Read one entity. Returns its image, `NOTHING` where the reader says so, `UNKNOWN` where reading failed.

    `was_there`: the same reader showed the entity before (see `absence.says_absent`).
    """
    try:
        arguments = exact_json.encode(progress.filled(read.arguments))
    except Invalid:
        return UNKNOWN
    reply: Reply = yield Look(connector, read.tool, arguments)
    image = seen(reply, read, was_there=was_there)
    progress.unread = reply.message if image is UNKNOWN else ""
    return image


def seen(reply: Reply, read: ReadBack, *, was_there: bool = False) -> Any:  # noqa: ANN401 - an image
    """Return the image behind a reader's answer."""
    if reply.outcome is Outcome.OK and reply.result is not None:
        return image_at(exact_json.decode(reply.result), read)
    refused = reply.outcome in {Outcome.TOOL_ERROR, Outcome.REFUSED}
    return NOTHING if refused and says_absent(reply.message, was_there=was_there) else UNKNOWN

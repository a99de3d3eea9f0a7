"""Whether a plan may be applied at once, needs a person, or is refused: the table of plan-apply-undo 5.14.

Pure. The strictest mode of stack, connector and tool holds for each call; the strictest of its calls for a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

import msgspec

from delta_protocol.catalogue.model import Catalogue, Mode, find_tool
from delta_protocol.changes.binding import recognise
from delta_protocol.changes.holes import unpack
from delta_protocol.changes.model import Plan, PlannedCall, Reversibility
from delta_protocol.config import LimitsConfig


class Verdict(IntEnum):
    """Larger is stricter."""

    APPLY = 0
    ASK = 1
    REFUSE = 2


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """`calls`: the numbers of the calls that need a person or are refused. `why`: the reason in words."""

    verdict: Verdict
    mode: Mode
    why: str = ""
    calls: tuple[int, ...] = ()


_A, _Q, _R = Verdict.APPLY, Verdict.ASK, Verdict.REFUSE
_R0, _R1, _R2, _R3 = Reversibility
_ORDER = tuple(Mode)

TABLE: Mapping[Mode, Mapping[Reversibility, Verdict]] = {
    Mode.READ: {_R0: _R, _R1: _R, _R2: _R, _R3: _R},
    Mode.ASK: {_R0: _Q, _R1: _Q, _R2: _Q, _R3: _Q},
    Mode.SAFE: {_R0: _A, _R1: _A, _R2: _Q, _R3: _Q},
    Mode.AUTO: {_R0: _A, _R1: _A, _R2: _A, _R3: _Q},
    Mode.FULL: {_R0: _A, _R1: _A, _R2: _A, _R3: _A},
}

BULK: Mapping[Mode, Verdict] = {Mode.READ: _R, Mode.ASK: _Q, Mode.SAFE: _Q, Mode.AUTO: _Q, Mode.FULL: _A}


def strictest(modes: Iterable[Mode | None]) -> Mode:
    """Return the mode that allows least; `full` when none is given."""
    return min((mode for mode in modes if mode is not None), key=_ORDER.index, default=Mode.FULL)


def decide(plan: Plan, catalogue: Catalogue, stack_mode: Mode | None, limits: LimitsConfig) -> Decision:
    """Return what the modes say about the plan."""
    modes = [_mode_of(call, catalogue, stack_mode) for call in plan.calls]
    mode = strictest([stack_mode, *modes])
    verdicts = [TABLE[own][call.reversibility] for own, call in zip(modes, plan.calls, strict=True)]
    bulk = _bulk(plan, catalogue, limits)
    worst = max([*verdicts, BULK[mode] if bulk else _A], default=_A)
    if worst is _A:
        return Decision(worst, mode)
    numbers = tuple(call.number for call, verdict in zip(plan.calls, verdicts, strict=True) if verdict is worst)
    what = bulk if not numbers else f"call{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    return Decision(worst, mode, f"{mode} mode: {what}{_held(plan, catalogue)}", numbers)


def _held(plan: Plan, catalogue: Catalogue) -> str:
    found: dict[str, tuple[str, ...]] = {}
    for call in plan.calls:
        connector = catalogue.connector(call.connector)
        tool = find_tool(connector, call.tool) if connector is not None else None
        if tool is not None and tool.held:
            found[f"{call.connector}.{tool.alias}"] = tool.held
    return "".join(f"; {name} changed its {', '.join(parts)} since it was looked at" for name, parts in found.items())


def _mode_of(call: PlannedCall, catalogue: Catalogue, stack_mode: Mode | None) -> Mode:
    connector = catalogue.connector(call.connector)
    if connector is None:
        return Mode.READ
    tool = find_tool(connector, call.tool)
    return strictest([stack_mode, connector.mode, tool.mode if tool is not None else None])


def _bulk(plan: Plan, catalogue: Catalogue, limits: LimitsConfig) -> str:
    """Return why the plan is a bulk change, or an empty text."""
    objects: set[object] = set()
    deletes = 0
    for call in plan.calls:
        touched = _touched(call, catalogue)
        objects |= touched
        deletes += len(touched) if call.operation == "delete" else 0
    if len(objects) > limits.bulk_objects:
        return f"{len(objects)} objects at once"
    return f"{deletes} deletes at once" if deletes > limits.bulk_deletes else ""


def _touched(call: PlannedCall, catalogue: Catalogue) -> set[object]:
    connector = catalogue.connector(call.connector)
    bound = recognise(connector, call.tool, unpack(call.arguments)) if connector is not None else None
    if bound is None:
        return {(call.connector, call.number)}
    count = max(len(bound.keys), len(bound.items) if bound.elements is None else 1, 1)
    if len(bound.keys) == count:
        return {(call.connector, bound.collection.name, repr(key)) for key in bound.keys}
    return {(call.connector, bound.collection.name, call.number, index) for index in range(count)}

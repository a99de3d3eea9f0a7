"""Taking in a plan: everything is checked against the catalogue it names, and what was not read yet is read now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delta_actors.journal.connectors import Connectors
from delta_protocol.catalogue import arguments, effects
from delta_protocol.catalogue.model import Catalogue, Connector, Effect, Tool, find_tool
from delta_protocol.changes.holes import unpack, writes_of
from delta_protocol.changes.images import UNKNOWN, Image, entity_name
from delta_protocol.changes.model import EntityRef, Plan, PlannedCall, ReadBack
from delta_protocol.changes.plan import completed, verify
from delta_protocol.changes.readback import image_before
from delta_protocol.changes.steps import Look, seen
from delta_protocol.config import LimitsConfig
from delta_protocol.errors import Invalid, LimitExceeded, NotFound
from delta_protocol.wire.message import Json


async def taken_in(plan: Plan, catalogue: Catalogue, connectors: Connectors, limits: LimitsConfig) -> Plan:
    """Return the plan, checked and with every before-image that can be had.

    Raises `Invalid` (with the call) for a plan that does not follow from its calls or whose arguments fit no schema,
    `LimitExceeded` for too many calls.
    """
    most = limits.program.planned_calls
    if len(plan.calls) > most:
        raise LimitExceeded(f"{len(plan.calls)} planned calls; the limit is {most}", limit="planned_calls")
    verify(plan, catalogue)
    for call in plan.calls:
        check_effect(call, tool_of(catalogue, call))
        check_arguments(call, tool_of(catalogue, call))
    wanted = {entity_name(look.entity): look for call in plan.calls for look in call.before_from}
    if not wanted:
        return plan
    learned: list[tuple[EntityRef, Any]] = []
    for look in wanted.values():
        image = image_before(await read_image(connectors, look.entity.connector, look.read), look.read)
        if image is not UNKNOWN:
            learned.append((look.entity, image))
    return completed(plan, catalogue, learned)


def tool_of(catalogue: Catalogue, call: PlannedCall) -> Tool:
    """Return the call's tool. Raises `NotFound`."""
    return named_tool(catalogue.connector(call.connector), call.connector, call.tool)


def named_tool(connector: Connector | None, name: str, tool: str) -> Tool:
    """Return a connector's tool by name. Raises `NotFound` where it is gone."""
    found = find_tool(connector, tool) if connector is not None else None
    if found is None or found.gone:
        raise NotFound(f"{name} has no tool {tool!r} any more", connector=name, tool=tool)
    return found


def check_effect(call: PlannedCall, tool: Tool) -> None:
    """Refuse what only reads or is switched off, where that hangs on the arguments. Raises `Invalid`."""
    effect = effects.effect_of(tool, call.arguments.json)
    if effect in {Effect.READ, Effect.OFF}:
        raise Invalid(f"call {call.number}: {call.connector}.{call.tool} is {effect} with these arguments")


def check_arguments(call: PlannedCall, tool: Tool) -> None:
    """Check the call's arguments against the schema, placeholders aside. Raises `Invalid` with call and line."""
    try:
        arguments.check(tool, call.arguments.json, [hole.path for hole in call.arguments.holes])
    except Invalid as error:
        where = f"line {call.line}: " if call.line else ""
        error.message = f"{where}call {call.number}: {call.connector}: {error.message}"
        error.detail |= {"call": call.number, "line": call.line}
        raise


def checker(catalogue: Catalogue) -> Any:  # noqa: ANN401 - a steps.Check
    """Return the machine's check of a call's filled arguments against its tool's schema."""

    def check(call: PlannedCall, filled: Json) -> Json:
        try:
            return arguments.check(tool_of(catalogue, call), filled)
        except NotFound as error:
            raise Invalid(error.message) from None

    return check


def pins_of(plan: Plan, catalogue: Catalogue) -> dict[int, str]:
    """Return the digests of the tools of all calls, and under the negative number those of their inverses."""
    pins: dict[int, str] = {}
    for call in plan.calls:
        connector = catalogue.connector(call.connector)
        for number, name in ((call.number, call.tool), (-call.number, call.inverse.tool if call.inverse else None)):
            tool = find_tool(connector, name) if connector is not None and name is not None else None
            if tool is not None:
                pins[number] = tool.digest
    return pins


def changed_tools(plan: Plan, then: Mapping[int, str], now: Mapping[int, str]) -> list[str]:
    """Return the tools, of calls and inverses, whose definitions are not what they were when the plan was made."""
    names: dict[str, None] = {}
    for call in plan.calls:
        if then.get(call.number) != now.get(call.number):
            names[f"{call.connector}.{call.tool}"] = None
        if call.inverse is not None and then.get(-call.number) != now.get(-call.number):
            names[f"{call.connector}.{call.inverse.tool}"] = None
    return list(names)


async def read_image(connectors: Connectors, connector: str, read: ReadBack) -> Image:
    """Read one entity whose reader has no holes."""
    if writes_of(unpack(read.arguments)):
        return UNKNOWN
    reply = await connectors.look(Look(connector, read.tool, read.arguments.json))
    return seen(reply, read)

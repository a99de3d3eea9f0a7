"""Tools of connectors with `expose = "tools"`, under their own names beside the three."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from delta_actors.gateway.caller import Caller
from delta_actors.mcp import ToolResult
from delta_actors.runtime.actor import Ref
from delta_protocol.answers.definitions import DELTA, DELTA_APPLY, DELTA_READ
from delta_protocol.catalogue.model import Catalogue, Connector, Effect, Tool
from delta_protocol.codecs import exact_json
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, PassTool

LONGEST_NAME = 64

_OURS = frozenset({DELTA, DELTA_READ, DELTA_APPLY})


@dataclass(frozen=True, slots=True)
class Passed:
    """One tool as it is passed through; `definition` is the upstream object under the name that it has here."""

    connector: str
    tool: str
    definition: Json


def passed_tools(catalogue: Catalogue) -> Mapping[str, Passed]:
    """Return the tools to pass through, by the name they have here, in catalogue order.

    A tool keeps its name where no other has it; else the connector's name stands before it (acceptance 3).
    """
    shown = [
        (connector, tool)
        for connector in catalogue.connectors
        if connector.expose == "tools"
        for tool in connector.tools
        if not tool.gone and tool.fault is None and tool.effect is not Effect.OFF
    ]
    counts = Counter(tool.name for _, tool in shown)
    passed: dict[str, Passed] = {}
    for connector, tool in shown:
        alone = counts[tool.name] == 1 and tool.name not in _OURS
        name = _short(tool.name if alone else f"{connector.name}_{tool.name}")
        if name not in passed:
            passed[name] = Passed(connector.name, tool.name, _definition(connector, tool, name))
    return passed


async def pass_call(registry: Ref, caller: Caller, passed: Passed, arguments: Json) -> ToolResult | Json:
    """Call the tool and return its result as it came: content, structured content, `isError` and `_meta`."""
    reply = await registry.ask(PassTool(passed.connector, passed.tool, arguments), listener=caller.listen, nowait=True)
    if reply.outcome in (Outcome.OK, Outcome.TOOL_ERROR):
        return reply.result
    what = f"{passed.connector}.{passed.tool}"
    match reply.outcome:
        case Outcome.NOT_SENT:
            return ToolResult.text(f"{what} was not called: {reply.message}", is_error=True)
        case Outcome.REFUSED:
            return ToolResult.text(f"{what} was refused: {reply.message}", is_error=True)
        case _:
            lost = f"{what} gave no answer and may have been carried out: {reply.message}"
            return ToolResult.text(lost, is_error=True)


def _definition(connector: Connector, tool: Tool, name: str) -> Json:
    if name == tool.name:
        return tool.definition
    definition = exact_json.decode(tool.definition, what=f"{connector.name}.{tool.name}")
    return exact_json.encode({**definition, "name": name})


def _short(name: str) -> str:
    """Return a name that clients take, the same for the same tool over restarts."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"

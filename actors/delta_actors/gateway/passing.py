"""Tools of connectors with `expose = "tools"`, under their own names beside the three."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from delta_protocol.answers.definitions import DELTA, DELTA_APPLY, DELTA_READ
from delta_protocol.catalogue.model import Catalogue, Connector, Effect, Tool
from delta_protocol.catalogue.offers import short_name
from delta_protocol.codecs import exact_json
from delta_protocol.mcp.mirrors import BadMirror, Mirror, find_mirrors
from delta_protocol.wire.message import Json

_TASKS = "execution"
"""The member of a legacy definition that says whether the tool runs as a task."""
_OURS = frozenset({DELTA, DELTA_READ, DELTA_APPLY})


@dataclass(frozen=True, slots=True)
class Passed:
    """One tool as it is passed through; `definition` is the upstream object under the name that it has here."""

    connector: str
    tool: str
    definition: Json
    mirrors: tuple[Mirror, ...] = ()
    """The arguments that a client over HTTP repeats in headers."""


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
        name = short_name(tool.name if alone else f"{connector.name}_{tool.name}")
        if name not in passed:
            passed[name] = Passed(connector.name, tool.name, _definition(connector, tool, name), _mirrors(tool))
    return passed


def _mirrors(tool: Tool) -> tuple[Mirror, ...]:
    try:
        return find_mirrors(tool.input_schema)
    except BadMirror:
        return ()


def _definition(connector: Connector, tool: Tool, name: str) -> Json:
    definition = exact_json.decode(tool.definition, what=f"{connector.name}.{tool.name}")
    if tool.held:
        definition = {**definition, "description": tool.description}
    elif name == tool.name and _TASKS not in definition:
        return tool.definition
    # What the connector makes a task of is followed to its end behind the gateway: here it is a call like any other.
    kept = {key: value for key, value in definition.items() if key != _TASKS}
    return exact_json.encode({**kept, "name": name})

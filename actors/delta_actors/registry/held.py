"""Tools that changed after their connector was looked at: held until a person accepts what they are (acceptance 71).

A connector counts as looked at where its mode lets things happen without a person. Until the change is accepted a held
tool is described as before, a call that changes something waits for a person, and where its description or its hints
changed it is not read with either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from delta_protocol.catalogue import build, pins
from delta_protocol.catalogue.model import Connector, Mode, Tool
from delta_protocol.catalogue.visible import visible
from delta_protocol.changes.modes import strictest
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Refused
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import HeldTool

_TELLING = frozenset({"title", "description", "annotations"})
"""What a tool says of itself, by which it is chosen and believed."""


def after(held: Mapping[str, str], before: Sequence[Json], now: Sequence[Json]) -> dict[str, str]:
    """Return the definitions that were looked at, by tool, of those that `now` are others."""
    known = {name: text.decode() for text in before if (name := build.name_of(text))} | dict(held)
    found: dict[str, str] = {}
    for text in now:
        name = build.name_of(text)
        if name is not None and name in known and _changes(known[name], text):
            found[name] = known[name]
    return found


def marked(tools: Iterable[Tool], held: Mapping[str, str]) -> tuple[Tool, ...]:
    """Return the tools, held ones as such."""
    return tuple(_mark(tool, held[tool.name]) if tool.name in held else tool for tool in tools)


def _mark(tool: Tool, before: str) -> Tool:
    description = exact_json.decode(before).get("description")
    return msgspec.structs.replace(
        tool,
        held=_changes(before, tool.definition),
        description=description if isinstance(description, str) else "",
        mode=strictest([Mode.ASK, tool.mode]),
    )


def _changes(before: str | Json, now: Json) -> tuple[str, ...]:
    return pins.changes(exact_json.decode(before), exact_json.decode(now))


def words(tools: Iterable[Tool]) -> tuple[str, ...]:
    """Say which tools are held, for people."""
    names = [tool.alias for tool in tools if tool.held and not tool.gone]
    return (f"changed, and held until accepted: {', '.join(names[:20])}",) if names else ()


def tools(connector: Connector, held: Mapping[str, str]) -> tuple[HeldTool, ...]:
    """Return what is held of the connector, as it was and as it is."""
    return tuple(
        HeldTool(tool.name, tool.alias, tool.held, held[tool.name].encode(), tool.definition, tool.digest)
        for tool in connector.tools
        if tool.held and not tool.gone
    )


def check(connector: str, tool: Tool) -> None:
    """Refuse to call a tool whose word cannot be taken. Raises `Refused`."""
    if _TELLING.isdisjoint(tool.held):
        return
    raise Refused(
        f"{connector}.{tool.name} changed its {', '.join(tool.held)} since it was looked at, and is held until a "
        f"person accepts that: `delta-supervisor accept {connector}`",
        connector=connector,
        tool=tool.name,
    )


def hidden(tool: Tool) -> list[str]:
    """Return what cannot be seen in the tool's own description."""
    definition: dict[str, Any] = exact_json.decode(tool.definition)
    description = definition.get("description")
    return list(visible(description)[1]) if isinstance(description, str) else []

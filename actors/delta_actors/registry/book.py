"""The catalogue's book: numbered, immutable snapshots, made anew when something changed and only then."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Sequence

import msgspec

from delta_actors.registry import held
from delta_actors.registry.memory import Memory, RememberedConnector
from delta_protocol.catalogue import build, names, pins, profiles
from delta_protocol.catalogue.model import Catalogue, Connector, ConnectorState, Mode, Tool
from delta_protocol.catalogue.profiles import Profile
from delta_protocol.catalogue.visible import one_line
from delta_protocol.codecs import exact_json
from delta_protocol.config import ConnectorConfig, StackConfig
from delta_protocol.errors import NotFound
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import HeldTool

KEPT_SNAPSHOTS = 16
KEPT_NOTES = 64
KEPT_GONE_TOOLS = 200
"""Per connector: a server that renames its tools all the time must not fill the memory."""
SHOW_REMOVED = 86_400.0
"""Seconds for which a connector that is no longer configured keeps its place in the API text."""
FORGET_REMOVED = 30 * 86_400.0

_DOWN = frozenset({ConnectorState.BACKOFF, ConnectorState.FAILED})


class Book:
    """All connectors as the catalogue knows them.

    A snapshot's number stands for its contents: tools, collections, effects, modes. `state` and `detail` are health:
    the newest snapshot shows them as they are now, and what a start changes in them makes no new number. Losing a
    connector and getting it back does, so that it is told; so does the first failure of one of which nothing is known
    yet.
    """

    def __init__(self, config: StackConfig, memory: Memory, known: Sequence[Profile], now: float) -> None:
        """`known` are the shipped profiles; `now` is seconds since the epoch."""
        self._profiles = tuple(known)
        self._configs = {name: given for name, given in config.connectors.items() if given.enabled}
        before = {entry.name: entry for entry in memory.connectors}
        self._remembered = {name: before.get(name, RememberedConnector(name)) for name in self._configs}
        self._remembered = {
            name: msgspec.structs.replace(entry, removed=None) for name, entry in self._remembered.items()
        }
        for name, entry in before.items():
            since = entry.removed if entry.removed is not None else now
            if name not in self._configs and now - since < FORGET_REMOVED:
                self._remembered[name] = msgspec.structs.replace(entry, removed=since)
        self._aliases = names.namespaces(self._remembered)
        self._misfits: dict[str, tuple[str, ...]] = {}
        self._unusable: dict[str, tuple[str, ...]] = {}
        self._connectors: dict[str, Connector] = {}
        for name, entry in self._remembered.items():
            if entry.removed is None or now - entry.removed < SHOW_REMOVED:
                self._connectors[name] = self._build(name)
        digest = self._digest()
        self._number = memory.number if digest == memory.digest else memory.number + 1
        self._latest_digest = digest
        self._kept: deque[Catalogue] = deque(maxlen=KEPT_SNAPSHOTS)
        self._notes: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=KEPT_NOTES)
        self._kept.append(self.newest())

    @property
    def number(self) -> int:
        """The newest snapshot's number."""
        return self._number

    @property
    def memory(self) -> Memory:
        """What is to be remembered."""
        return Memory(number=self._number, digest=self._latest_digest, connectors=tuple(self._remembered.values()))

    def newest(self) -> Catalogue:
        """Return the newest snapshot with the connectors' health of this moment."""
        return Catalogue(self._number, tuple(self._connectors.values()))

    def snapshot(self, number: int | None) -> Catalogue:
        """Return the newest snapshot or a kept one. Raises `NotFound` when it is no longer kept."""
        if number is None or number == self._number:
            return self.newest()
        for kept in self._kept:
            if kept.number == number:
                return kept
        raise NotFound(f"catalogue {number} is no longer kept; the newest is {self._number}", newest=self._number)

    def connector(self, name: str) -> Connector:
        """Return a connector that may be called. Raises `NotFound`, with what there is."""
        found = self._connectors.get(name)
        if found is None or found.state is ConnectorState.GONE:
            raise NotFound(f'no connector "{name}"; there are: {", ".join(self._configs)}', nearest=list(self._configs))
        return found

    def era(self, name: str) -> str:
        """Return the era that the connector was last seen in, empty if none was."""
        return self._remembered[name].era

    def notes_since(self, number: int) -> list[tuple[int, tuple[str, ...]]]:
        """Return what changed in each snapshot after `number`, as far as it is kept."""
        return [(made, notes) for made, notes in self._notes if made > number]

    def health(self, name: str, state: ConnectorState, detail: str = "") -> bool:
        """Take a connector's state, `detail` saying why it is not ready. Return whether a new snapshot was made."""
        before = self._connectors[name]
        if state is ConnectorState.STARTING and before.state in _DOWN:
            # Trying again is no news: it stays down until it is there.
            return False
        detail = detail or self._faults(name)
        self._connectors[name] = msgspec.structs.replace(before, state=state, detail=detail)
        if state is ConnectorState.READY:
            if before.state in _DOWN and before.tools:
                return self._advance(f"{name} is available again", always=True)
            if before.state is not ConnectorState.READY and not before.tools:
                return self._advance(f"{name} is there, without tools", always=True)
            return False
        if state in _DOWN and (before.state is ConnectorState.READY or not (before.state in _DOWN or before.tools)):
            return self._advance(f"{name} is not available: {one_line(detail, 200) or state}", always=True)
        return False

    def opened(self, name: str, era: str, server_name: str, server_version: str) -> bool:
        """Take what a session said about its server. Return whether there is something new to remember."""
        before = self._remembered[name]
        after = msgspec.structs.replace(before, era=era, server_name=server_name, server_version=server_version)
        self._remembered[name] = after
        return after != before

    def forget_era(self, name: str) -> None:
        """The remembered era proved wrong, or may have: find it out again."""
        self._remembered[name] = msgspec.structs.replace(self._remembered[name], era="")

    def listed(self, name: str, listing: Sequence[Json]) -> bool:
        """Take a connector's listing. Return whether it made a new snapshot."""
        entry = self._remembered[name]
        known = tuple(text.encode() for text in entry.definitions)
        usable = [text for text in listing if build.name_of(text)]
        definitions, gone = build.remembered(known, usable)
        definitions, gone = _bounded(definitions, gone)
        found = [build.name_of(text) or "" for text in definitions]
        aliases = names.aliases(found, {key: entry.aliases[key] for key in found if key in entry.aliases})
        self._remembered[name] = msgspec.structs.replace(
            entry,
            definitions=tuple(text.decode() for text in definitions),
            aliases=aliases,
            gone=tuple(sorted(gone)),
            held=held.after(entry.held, known, definitions) if self._looked_at(name) else {},
        )
        before = self._connectors[name]
        detail = "" if before.detail == self._faults(name) else before.detail
        self._connectors[name] = after = self._build(name, before.state, detail)
        fresh = [fault for fault in build.unusable(listing) if fault not in self._unusable.get(name, ())]
        self._unusable[name] = build.unusable(listing)
        return self._advance(*_differences(name, before, after), *(f"{name}: {fault}" for fault in fresh))

    def held(self, name: str) -> tuple[HeldTool, ...]:
        """Return the connector's tools that are held until a person accepts them. Raises `NotFound`."""
        self.connector(name)
        return held.tools(self._connectors[name], self._remembered[name].held)

    def accept(self, name: str, digests: Collection[str]) -> bool:
        """Hold no longer what was looked at as it is now. Return whether it made a new snapshot. Raises `NotFound`."""
        seen = {each.tool for each in self.held(name) if each.digest in digests}
        entry = self._remembered[name]
        kept = {tool: text for tool, text in entry.held.items() if tool not in seen}
        self._remembered[name] = msgspec.structs.replace(entry, held=kept)
        before = self._connectors[name]
        self._connectors[name] = self._build(name, before.state)
        return self._advance(f"{name}: the changes of {_names(sorted(seen))} were accepted")

    def _looked_at(self, name: str) -> bool:
        config = self._configs.get(name)
        return config is not None and mode_of(config) not in (Mode.READ, Mode.ASK)

    def _build(self, name: str, state: ConnectorState = ConnectorState.STARTING, detail: str = "") -> Connector:
        entry = self._remembered[name]
        alias = self._aliases[name]
        config = self._configs.get(name)
        if config is None:
            return Connector(name, ConnectorState.GONE, Mode.ASK, alias=alias, detail="no longer configured")
        listing = build.build(
            [text.encode() for text in entry.definitions],
            config,
            aliases=entry.aliases,
            gone=frozenset(entry.gone),
            profile=profiles.matching(self._profiles, entry.server_name),
        )
        tools = held.marked(listing.tools, entry.held) if self._looked_at(name) else listing.tools
        self._misfits[name] = (*listing.faults, *held.words(tools))
        return Connector(
            name=name,
            state=state,
            mode=mode_of(config),
            tools=tools,
            collections=listing.collections,
            expose=config.expose,
            trusted=config.trust != "annotations-off",
            server=f"{entry.server_name} {entry.server_version}".strip(),
            detail=detail or self._faults(name),
            alias=alias,
        )

    def _faults(self, name: str) -> str:
        """What of the connector's listing and of the mappings for it cannot be used, in words."""
        return "; ".join((*self._misfits.get(name, ()), *self._unusable.get(name, ())))

    def _advance(self, *notes: str, always: bool = False) -> bool:
        digest = self._digest()
        if digest == self._latest_digest and not always:
            return False
        self._number += 1
        self._latest_digest = digest
        self._kept.append(self.newest())
        self._notes.append((self._number, notes))
        return True

    def _digest(self) -> str:
        contents = [
            msgspec.structs.replace(connector, state=ConnectorState.READY, detail="")
            if connector.state is not ConnectorState.GONE
            else connector
            for connector in self._connectors.values()
        ]
        return hashlib.sha256(msgspec.msgpack.encode(contents)).hexdigest()


def mode_of(config: ConnectorConfig) -> Mode:
    """Return the connector's mode: as configured, else `safe` once reviewed, else `ask` (plan-apply-undo 5.14)."""
    return config.mode or (Mode.SAFE if config.reviewed else Mode.ASK)


def _bounded(definitions: tuple[Json, ...], gone: frozenset[str]) -> tuple[tuple[Json, ...], frozenset[str]]:
    """Drop the tools that have been gone longest where there are too many."""
    missing = [text for text in definitions if build.name_of(text) in gone]
    dropped = set(missing[: max(0, len(missing) - KEPT_GONE_TOOLS)])
    kept = tuple(text for text in definitions if text not in dropped)
    return kept, gone & {build.name_of(text) or "" for text in kept}


def _differences(name: str, before: Connector, after: Connector) -> tuple[str, ...]:
    """Say what changed in a connector's tools."""
    old = {tool.name: tool for tool in before.tools if not tool.gone}
    new = {tool.name: tool for tool in after.tools if not tool.gone}
    notes: list[str] = []
    added, lost = [tool for tool in new if tool not in old], [tool for tool in old if tool not in new]
    if not before.tools and new:
        notes.append(f"{name} is there, with {len(new)} tools")
    elif added:
        notes.append(f"{name} has new tools: {_names(added)}")
    if lost:
        notes.append(f"{name} no longer has: {_names(lost)}")
    notes += [
        _change(name, old[tool], new[tool]) for tool in new if tool in old and old[tool].digest != new[tool].digest
    ]
    notes += [
        f"{name}.{tool}: its description contains {', '.join(hidden)}"
        for tool, found in new.items()
        if (tool not in old or old[tool].digest != found.digest) and (hidden := held.hidden(found))
    ]
    return tuple(notes)


def _change(name: str, old: Tool, new: Tool) -> str:
    parts = pins.changes(exact_json.decode(old.definition), exact_json.decode(new.definition))
    effect = "" if old.effect is new.effect else f"; it counted as {old.effect} and now as {new.effect}"
    kept = "; it is held until a person accepts that" if new.held else ""
    return f"{name}.{new.alias} changed its {', '.join(parts)}{effect}; plans made before are refused{kept}"


def _names(tools: Sequence[str]) -> str:
    shown = [one_line(tool, 60) for tool in tools[:20]]
    return ", ".join(shown) + (f" and {len(tools) - 20} more" if len(tools) > 20 else "")

"""The reads of one program: each checked against the catalogue, made once, remembered, bounded in flight."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import trio

from delta_protocol.catalogue import arguments as argument_checks
from delta_protocol.catalogue import results
from delta_protocol.catalogue.effects import effect_of
from delta_protocol.catalogue.model import Catalogue, Effect, Tool, find_tool
from delta_protocol.changes.model import Read
from delta_protocol.changes.recording import references, split
from delta_protocol.codecs import exact_json
from delta_protocol.config import ProgramLimits
from delta_protocol.errors import DeadlineExceeded, DeltaError, ProtocolViolation
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, ReadTool, ToolReply
from delta_protocol.wire.worker import HostCall, tag, untag

_NEEDS_TAGS = re.compile(rb"[0-9]{16}|\\u0001")
ANSWERED, PLAN, FAILED = 1, 2, 0
"""How a host call is settled: a value, "this is a write: plan it", an error."""

Key = tuple[str, str, bytes, int]
Ask = Callable[[ReadTool], Awaitable[ToolReply]]


@dataclass(slots=True)
class Entry:
    """One read: pending until `done`. `result` is the decoded result, or the error's text as a JSON string."""

    connector: str
    tool: str
    arguments: Json
    occurrence: int
    done: trio.Event = field(default_factory=trio.Event)
    result: Json = b"null"
    error: str = ""
    """Empty, or the error's name as the program sees it."""
    message: str = ""
    begun: bool = False

    def as_read(self) -> Read:
        """Return the form that is kept with the delta."""
        return Read(self.connector, self.tool, self.arguments, self.occurrence, self.result, bool(self.error))


class Reads:
    """Answers a program's host calls through `ask`, the registry."""

    def __init__(self, ask: Ask, catalogue: Catalogue, limits: ProgramLimits) -> None:
        self._ask = ask
        self._catalogue = catalogue
        self._limits = limits
        self._entries: dict[Key, Entry] = {}
        self._occurrences: dict[tuple[str, str, bytes], int] = {}
        self._in_flight = trio.CapacityLimiter(limits.in_flight)
        self._per_connector: dict[str, trio.CapacityLimiter] = {}
        self.by_call: dict[int, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        """All reads that ended, in the order in which they were begun."""
        return (entry for entry in self._entries.values() if entry.done.is_set())

    async def answer(self, call: HostCall) -> bytes:
        """Return the settlement of one host call, as one JSON array.

        Raises `ProtocolViolation` for a call that the prelude would not have made, `DeadlineExceeded`.
        """
        tool = self._tool(call)
        tree = untag(call.arguments, what="arguments", depth=self._limits.depth)
        if not isinstance(tree, dict):
            raise ProtocolViolation("the worker sent arguments that are no object")
        value = split(tree)
        effect = effect_of(tool, value.json)
        if effect is Effect.OFF:
            return _failed(call.id, "Refused", f"{call.connector}.{call.tool} is switched off for these arguments")
        if effect is not Effect.READ:
            if not tool.rules:
                raise ProtocolViolation(f"the worker asked to read with {call.connector}.{call.tool}, which may write")
            return b"[%d,%d,null]" % (call.id, PLAN)
        if next(references(tree), None) is not None or value.holes:
            message = f"{call.connector}.{call.tool} reads now; an argument comes only when the plan is applied"
            return _failed(call.id, "NotYetReal", message)
        try:
            checked = argument_checks.check(tool, value.json)
        except DeltaError as error:
            return _failed(call.id, "Invalid", error.message)
        entry = self._entry(call, exact_json.canonical(exact_json.decode(checked)))
        self.by_call[call.id] = entry
        if entry.begun:
            await entry.done.wait()
        else:
            await self._make(entry, checked)
        return self._settlement(call.id, entry)

    def _tool(self, call: HostCall) -> Tool:
        connector = self._catalogue.connector(call.connector)
        tool = None if connector is None else find_tool(connector, call.tool)
        if tool is None or tool.gone or tool.fault:
            raise ProtocolViolation(f"the worker called {call.connector[:80]}.{call.tool[:80]}, which is not to be had")
        return tool

    def _entry(self, call: HostCall, arguments: bytes) -> Entry:
        base = (call.connector, call.tool, arguments)
        occurrence = self._occurrences.get(base, 0)
        known = self._entries.get((*base, occurrence))
        if known is not None and (call.fresh or known.error):
            occurrence += 1
            known = None
        self._occurrences[base] = occurrence
        if known is None:
            known = self._entries[(*base, occurrence)] = Entry(*base, occurrence)
        return known

    async def _make(self, entry: Entry, arguments: Json) -> None:
        entry.begun = True
        try:
            await self._ask_registry(entry, arguments)
        finally:
            entry.done.set()

    async def _ask_registry(self, entry: Entry, arguments: Json) -> None:
        limiter = self._per_connector.setdefault(
            entry.connector, trio.CapacityLimiter(max(1, self._limits.per_connector))
        )
        try:
            async with limiter, self._in_flight:
                reply = await self._ask(ReadTool(entry.connector, entry.tool, arguments))
            if reply.outcome is Outcome.OK:
                result = results.decoded(reply.result)
                if len(result) <= self._limits.host_answer:
                    entry.result = result
                    return
                entry.error = "LimitError"
                entry.message = (
                    f"the answer of {entry.connector}.{entry.tool} has {len(result)} bytes; "
                    f"the limit is {self._limits.host_answer}: ask for less"
                )
            else:
                entry.error = "ToolError"
                entry.message = reply.message or f"{entry.connector}.{entry.tool}: {reply.outcome}"
        except DeadlineExceeded:
            raise
        except DeltaError as error:
            entry.error, entry.message = type(error).__name__, error.message
        entry.result = exact_json.encode(entry.message)

    def _settlement(self, call_id: int, entry: Entry) -> bytes:
        if entry.error:
            return _failed(call_id, entry.error, entry.message)
        if not _NEEDS_TAGS.search(entry.result):
            return b"[%d,%d,%b]" % (call_id, ANSWERED, entry.result)
        return b"[%d,%d,%b]" % (call_id, ANSWERED, tag(exact_json.decode(entry.result)))


def _failed(call_id: int, name: str, message: str) -> bytes:
    return b"[%d,%d,%b]" % (call_id, FAILED, exact_json.encode({"name": name, "message": message}))

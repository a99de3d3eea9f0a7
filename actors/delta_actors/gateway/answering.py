"""Turning what happened into a tool result: text within the budget, the same facts as structured content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from delta_actors.mcp import TextContent, ToolResult
from delta_actors.runtime.actor import Ref
from delta_protocol.answers import compose, report
from delta_protocol.codecs import exact_json
from delta_protocol.errors import DeltaError
from delta_protocol.shaping import Place, Shaped, readable, shape, text_of
from delta_protocol.tokens import estimate, fits
from delta_protocol.wire.journal import DeltaReport
from delta_protocol.wire.results import StoreResult


@dataclass(frozen=True, slots=True)
class Returned:
    """A program's value, as plain JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything an answer about a program or a delta is made of. `failure` and `error` are its words and facts."""

    returned: Returned | None = None
    report: DeltaReport | None = None
    heading: str = ""
    failure: str = ""
    error: dict[str, Any] | None = None
    console: Sequence[str] = ()
    notes: Sequence[str] = ()


class Answers:
    """Makes results of at most `budget` tokens; what does not fit is kept by the results actor."""

    def __init__(self, results: Ref, budget: int) -> None:
        self._results = results
        self.budget = budget

    async def result(self, facts: Facts, since: Sequence[str]) -> ToolResult:
        """Return the tool result: value, outcome, then what else there is to say."""
        blocks = [facts.heading, compose.short(facts.failure, self.budget // 4, "")]
        notes: Sequence[str] = facts.notes
        structured: dict[str, Any] = {"returned": None}
        if facts.report is not None:
            words = report.outcome(facts.report)
            blocks.append(compose.short(words, self.budget // 2, f" in delta:{facts.report.id}"))
            structured["delta"] = report.facts(facts.report)
            # A plan that is shown says its notes itself.
            notes = [note for note in notes if f"Note: {note}" not in words]
        blocks += compose.extras(facts.console, notes, since, self.budget // 4)
        if facts.returned is not None:
            room = self.budget - sum(estimate(block) for block in blocks) - 16
            shaped = await self.fitted(facts.returned.value, room)
            structured["returned"] = shaped.value
            blocks.insert(0, f"Returned: {text_of(shaped.value)}")
            if shaped.cuts:
                structured["result"] = shaped.cuts[0].id
        for key, lines in (("console", facts.console), ("notes", facts.notes)):
            if lines:
                structured[key] = compose.cut_lines(lines, self.budget // 8, "")
        if facts.error is not None:
            structured["error"] = facts.error
        failed = facts.error is not None or (facts.report is not None and facts.report.state in report.FAILED)
        text = "\n".join(block for block in blocks if block)
        return ToolResult((TextContent(text),), exact_json.encode(structured), failed)

    async def fitted(self, value: Any, budget: int, place: Place | None = None) -> Shaped:  # noqa: ANN401 - any JSON
        """Return `value` as it may be shown within `budget` tokens, kept whole where it had to be cut.

        `place` is where it is kept already, if it is.
        """
        shown = readable(value)
        if fits(exact_json.encode(shown).decode(), budget):
            return Shaped(shown)
        if place is None:
            try:
                stored = await self._results.ask(StoreResult(exact_json.encode(value)))
            except DeltaError as error:
                return Shaped(f"… too long to show, and it could not be kept: {error.message}")
            place = Place(stored.id)
        return shape(shown, budget, place)

"""The table of modes, and what counts as a bulk change."""

from __future__ import annotations

import pytest

from delta_protocol.catalogue.model import Mode
from delta_protocol.changes.holes import pack
from delta_protocol.changes.model import EntityRef, Plan, PlannedCall, Reversibility
from delta_protocol.changes.modes import Verdict, decide
from delta_protocol.config import LimitsConfig
from tests.changes.catalogues import catalogue, tickets

EXPECTED = {
    Mode.READ: "RRRRR",
    Mode.ASK: "QQQQQ",
    Mode.SAFE: "AAQQQ",
    Mode.AUTO: "AAAQQ",
    Mode.FULL: "AAAAA",
}
LETTERS = {"A": Verdict.APPLY, "Q": Verdict.ASK, "R": Verdict.REFUSE}


def call(number: int, kind: Reversibility, tool: str = "update_ticket", operation: str = "update") -> PlannedCall:
    key = f"T-{number}"
    entity = EntityRef("tickets", "ticket", f'"{key}"'.encode())
    return PlannedCall(number, "tickets", tool, pack({"id": key}), kind, "", entity, operation)


@pytest.mark.parametrize("mode", list(Mode))
def test_each_mode_decides_by_class_and_bulk(mode: Mode) -> None:
    snapshot = catalogue(tickets(mode))
    for kind, letter in zip(Reversibility, EXPECTED[mode], strict=False):
        assert decide(Plan(7, (call(1, kind),)), snapshot, None, LimitsConfig()).verdict is LETTERS[letter]
    many = Plan(7, tuple(call(number, Reversibility.R0) for number in range(1, 22)))
    assert decide(many, snapshot, None, LimitsConfig()).verdict is LETTERS[EXPECTED[mode][4]]
    deletes = Plan(7, tuple(call(n, Reversibility.R0, "delete_ticket", "delete") for n in range(1, 7)))
    assert decide(deletes, snapshot, None, LimitsConfig()).verdict is LETTERS[EXPECTED[mode][4]]


def test_the_strictest_of_stack_and_connector_counts() -> None:
    plan = Plan(7, (call(1, Reversibility.R0),))
    assert decide(plan, catalogue(tickets(Mode.FULL)), Mode.ASK, LimitsConfig()).verdict is Verdict.ASK
    assert decide(plan, catalogue(tickets(Mode.READ)), Mode.FULL, LimitsConfig()).verdict is Verdict.REFUSE
    assert decide(plan, catalogue(tickets(Mode.FULL)), None, LimitsConfig()).verdict is Verdict.APPLY

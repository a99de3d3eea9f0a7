"""The official conformance suite against the gateway, with the server under test behind it.

Every scenario and every way where the peers are required (``DELTA_REQUIRE_PEERS=1``), else a few of each revision.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance import gateway, official

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"
ALL = os.environ.get("DELTA_REQUIRE_PEERS") == "1"
FEW = {
    "2025-11-25": (
        "tools-call-elicitation",
        "tools-call-with-logging",
        "tools-call-with-progress",
        "prompts-get-with-args",
    ),
    "2026-07-28": ("input-required-result-multi-round", "input-required-result-non-tool-request", "caching"),
}


@pytest.fixture(scope="module")
def found() -> dict[str, list[official.Scenario]]:
    if not official.installed():
        reason = "the official suite is not installed: run `python -m conformance.official install`"
        if ALL:
            pytest.fail(reason)
        pytest.skip(reason)
    backs = gateway.BACKS if ALL else ("stdio legacy", "HTTP modern")
    chosen = () if ALL else [name for few in FEW.values() for name in few]
    return {back: official.run_through_gateway(back, official.REVISIONS, chosen) for back in backs}


def test_every_scenario_passes_that_can(found: dict[str, list[official.Scenario]]) -> None:
    failed = {
        (back, each.revision, each.name): each.problems
        for back, scenarios in found.items()
        for each in scenarios
        if each.result == "failed"
    }
    assert failed == {}
    assert all(each.result in ("passed", "not possible") for run in found.values() for each in run if each.required)


def test_the_documentation_shows_these_results(found: dict[str, list[official.Scenario]]) -> None:
    if not ALL:
        pytest.skip("a few scenarios only: the whole table is compared where the peers are required")
    assert official.gateway_table(found) in DOCUMENT.read_text()

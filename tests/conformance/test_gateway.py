"""The official conformance suite against the gateway, with the server under test behind it.

A server of each revision behind clients of the other: every scenario where the peers are required
(``DELTA_REQUIRE_PEERS=1``), else a few. `python -m conformance.official gateway` runs every other pair as well.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance import gateway, official

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"
TRIED = {"stdio legacy": "2026-07-28", "HTTP modern": "2025-11-25"}
"""What stands behind the gateway, and the revision that the suite speaks to it."""
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


pytestmark = pytest.mark.xdist_group("gateway")


@pytest.fixture(scope="module")
def found() -> dict[str, list[official.Scenario]]:
    if not official.installed():
        reason = "the official suite is not installed: run `python -m conformance.official install`"
        if ALL:
            pytest.fail(reason)
        pytest.skip(reason)
    chosen = () if ALL else [name for few in FEW.values() for name in few]
    return {back: official.run_through_gateway(back, [revision], chosen) for back, revision in TRIED.items()}


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
    shown = _rows(DOCUMENT.read_text())
    for back, scenarios in found.items():
        for line in official.gateway_table({back: scenarios}).splitlines()[2:]:
            name, revision, result = _cells(line)
            assert shown[name, revision][gateway.BACKS.index(back)] == result, (back, name)


def _rows(document: str) -> dict[tuple[str, str], list[str]]:
    """Return the cells of the gateway's table by scenario and revision."""
    section = document.partition("## Through the gateway")[2].partition("\n## ")[0]
    rows = [_cells(line) for line in section.splitlines() if line.startswith("| `")]
    return {(row[0], row[1]): row[2:] for row in rows if len(row) == 2 + len(gateway.BACKS)}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]

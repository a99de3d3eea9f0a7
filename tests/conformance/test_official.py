"""The official conformance suite against `DeltaServer` and `DeltaClient`, and the tables in the documentation."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from conformance import everything_client, official

pytestmark = pytest.mark.xdist_group("official")

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"


def require_suite() -> None:
    if not official.installed():
        reason = "the official suite is not installed: run `python -m conformance.official install`"
        if os.environ.get("DELTA_REQUIRE_PEERS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def played() -> list[official.Scenario]:
    """The scenarios of both revisions, those of authorisation at the later one alone, which has them all."""
    require_suite()
    earlier, later = official.REVISIONS
    return [*official.run_client_suite(earlier, everything_client.SCENARIOS), *official.run_client_suite(later)]


@pytest.fixture(scope="module")
def scenarios() -> list[official.Scenario]:
    require_suite()
    with official.everything_server() as url:
        return [each for revision in official.REVISIONS for each in official.run_server_suite(url, revision)]


@pytest.mark.parametrize("revision", official.REVISIONS)
def test_every_scenario_passes_without_a_warning(revision: str, scenarios: list[official.Scenario]) -> None:
    run = [each for each in scenarios if each.revision == revision]
    assert {each.name: each.problems for each in run if each.result == "failed"} == {}
    assert all(each.result == "passed" for each in run if each.required)


def test_the_documentation_shows_these_results(scenarios: list[official.Scenario]) -> None:
    assert official.table(scenarios) in DOCUMENT.read_text()


@pytest.mark.parametrize("revision", official.REVISIONS)
def test_every_scenario_for_clients_passes_without_a_warning(revision: str, played: list[official.Scenario]) -> None:
    run = [each for each in played if each.revision == revision]
    assert {each.name: each.problems for each in run if each.result != "passed"} == {}
    assert {each.name for each in run} >= {"tools_call", "json-schema-2020-12-preservation"}
    if revision == official.REVISIONS[-1]:
        assert sum(each.name.startswith("auth/") for each in run) >= 25


def test_the_documentation_shows_the_clients_results(played: list[official.Scenario]) -> None:
    document = DOCUMENT.read_text().partition("## Client")[2]
    shown = {
        (name.strip("`"), revision): result
        for name, *results in re.findall(r"^\| (`\S+`) \| (.*?) ?\| (.*?) ?\|$", document, re.MULTILINE)
        for revision, result in zip(official.REVISIONS, results, strict=True)
    }
    assert {(each.name, each.revision): official.cell(each) for each in played}.items() <= shown.items()


def test_a_scenario_that_did_not_run_or_only_warned_is_no_pass() -> None:
    assert official.Scenario("ping", "2025-11-25", True, 0, ()).result == "failed"
    assert official.Scenario("ping", "2025-11-25", True, 3, ("x: slow",)).result == "failed"
    assert official.main(["server", "--requirements", "1999-01-01"]) == 64

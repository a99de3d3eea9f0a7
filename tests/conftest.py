"""What every test shares: a stack under test, and the mark `shared_data`, which a complete run must not skip."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import shared_data
from tests.stack.harness import Stack, running
from tests.stack.processes import nothing_left_behind

_TALLY = pytest.StashKey[dict[str, int]]()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A directory for one stack; after the test no process that came from here may be left."""
    with nothing_left_behind():
        yield tmp_path


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    """A running stack with the demo connectors."""
    with running(home) as stack:
        yield stack


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shared_data: needs the third-party test data (see tests/shared_data.py)")
    # Time is no property: how long an example takes says how busy the machine is.
    hypothesis.settings.register_profile("house", deadline=None)
    hypothesis.settings.load_profile("house")
    config.stash[_TALLY] = {"passed": 0, "failed": 0, "skipped": 0}


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared_data") is not None and shared_data.folder() is None:
        pytest.skip("no shared test data: set DELTA_SHARED to its folder")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("shared_data") is not None and (report.when == "call" or report.outcome != "passed"):
        item.config.stash[_TALLY][report.outcome] += 1
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a complete run that had the data and did not use it."""
    tally = session.config.stash[_TALLY]
    unused = tally["skipped"] > 0 or tally["passed"] + tally["failed"] == 0
    if os.environ.get("DELTA_REQUIRE_SHARED") == "1" and unused and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash[_TALLY]
    ran = tally["passed"] + tally["failed"]
    terminalreporter.write_line(f"shared data: {ran} tests ran, {tally['skipped']} skipped")

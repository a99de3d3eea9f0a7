"""Runs the suite against any server.

    python -m conformance.framework                        # the demo server of this library, over stdio and HTTP
    python -m conformance.framework [OPTION]... COMMAND...  # a server that speaks over stdio
    python -m conformance.framework [OPTION]... URL         # an endpoint of Streamable HTTP

Options come before the command. Checks of what the server does not have, and those of this library's functions, are
"not applicable". Exit codes: 0 nothing failed, 1 something did, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator

from conformance.framework.checks import ERAS, Outcome, checks_of, run
from conformance.framework.scenarios import SCENARIOS
from conformance.framework.target import DEMO, Target


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="conformance.framework", description=__doc__, formatter_class=_Raw)
    parser.add_argument("--era", choices=ERAS, action="append", help="only this era, where a check is run in both")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="only checks whose id begins so")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a line of JSON for each check")
    form.add_argument("--table", action="store_true", help="print a Markdown table")
    parser.add_argument("target", nargs=argparse.REMAINDER, metavar="COMMAND... | URL")
    options = parser.parse_args(arguments)
    checks = checks_of(SCENARIOS, options.era or ERAS)
    chosen = [each for each in checks if not options.only or each.id.startswith(tuple(options.only))]
    if not chosen:
        parser.error("no check has such an id")
    outcomes: list[Outcome] = []
    with target_of(options.target) as target:
        for check in chosen:
            outcome = run(check, target)
            outcomes.append(outcome)
            if options.json:
                print(json.dumps(fields(outcome)), flush=True)
            elif not options.table:
                print(f"{check.title:18} {outcome.result}{f' ({outcome.why})' if outcome.why else ''}", flush=True)
    if options.table:
        print(table(outcomes), end="")
    elif not options.json:
        results = [outcome.result for outcome in outcomes]
        print(", ".join(f"{results.count(each)} {each}" for each in ("passed", "failed", "not applicable")))
    return 1 if any(outcome.result == "failed" for outcome in outcomes) else 0


def target_of(words: list[str]) -> Target:
    """Return what is to be tried: by default the demo server."""
    if not words:
        return Target([*DEMO, "stdio"], ours=True)
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        return Target(url=words[0])
    return Target(words)


def fields(outcome: Outcome) -> dict[str, str | None]:
    """Return an outcome as the members of a JSON object."""
    check = outcome.check
    return {"id": check.id, "era": check.era, "says": check.says, "result": outcome.result, "why": outcome.why}


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the results as a Markdown table, a check of both eras in one row. Figures are left out: they vary."""
    return "\n".join(["| check | what holds | result |", "|---|---|---|", *rows(outcomes)]) + "\n"


def rows(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the rows of `table`."""
    found: dict[str, tuple[str, list[str]]] = {}
    for outcome in outcomes:
        said = outcome.result if outcome.result == "passed" else f"{outcome.result}: {outcome.why}"
        _, results = found.setdefault(outcome.check.id, (outcome.check.says, []))
        if said not in results:
            results.append(said)
    for identity, (says, results) in found.items():
        yield f"| {identity} | {says} | {'; '.join(results)} |"


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Shows the description as it is."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Commands about changes: `run`, `replan`, `journal`, `undo`, `approve`, `decline`."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from delta_actors.runtime.actor import Ref
from delta_protocol.answers import report as words
from delta_protocol.changes.model import DeltaState
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Refused
from delta_protocol.wire.journal import (
    Apply,
    Approve,
    Decline,
    DeltaPage,
    DeltaReport,
    GetDelta,
    ListDeltas,
    Replan,
    Undo,
)
from delta_protocol.wire.message import Role
from delta_supervisor.cli.app import json_option, stack_options
from delta_supervisor.cli.asking import agreed, check_unasked
from delta_supervisor.cli.options import DONE, PARTIAL, command_line
from delta_supervisor.cli.output import print_json, print_progress, print_text
from delta_supervisor.cli.program import exit_of_state
from delta_supervisor.load import Flags, Loaded, load

ResultT = TypeVar("ResultT")

CHANNEL = "command line"

_DELTA_FIELDS = ("created", "changed", "duration", "undo_of", "undone_by", "reason", "expires", "code", "notes")
_CALL_FIELDS = ("number", "connector", "tool", "words", "state", "reversibility", "undo", "detail")


@click.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--dry-run", is_flag=True, help="Plan only.")
@stack_options
@json_option
def run(file: TextIO, dry_run: bool, as_json: bool, flags: Flags) -> int:
    """Run one program (a file, or - for stdin), on the running stack or on one started for it."""
    return _ran(flags, file.read(), as_json, dry_run=dry_run)


@click.command()
@click.argument("delta")
@click.option("--dry-run", is_flag=True, help="Plan only.")
@stack_options
@json_option
def replan(delta: str, dry_run: bool, as_json: bool, flags: Flags) -> int:
    """Run the program of a DELTA again on what is there now, as a new delta: after a conflict, or when it expired."""
    known = _ask(_loaded(flags), lambda ref: ref.ask(Replan(delta)))
    return _ran(flags, known.code, as_json, dry_run=dry_run, again=True)


def _ran(flags: Flags, program: str, as_json: bool, *, dry_run: bool, again: bool = False) -> int:
    from delta_supervisor.cli.shell import run_once

    facts, text, code = run_once(flags, program, dry_run=dry_run, again=again)
    if as_json:
        print_json(facts)
    elif code == DONE:
        print_text(text)
    else:
        print_progress(text)
    if dry_run and "delta" in facts and not as_json:
        print_progress(f"From here: {command_line(flags, 'approve', facts['delta']['id'])}")
    return code


@click.command()
@click.option("--before", metavar="ID", help="Go on after this delta.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many.")
@click.argument("delta", required=False)
@stack_options
@json_option
def journal(before: str | None, limit: int, delta: str | None, as_json: bool, flags: Flags) -> int:
    """List what was done, newest first; or everything about one DELTA."""
    loaded = _loaded(flags)
    if delta is not None:
        report = _ask(loaded, lambda ref: ref.ask(GetDelta(delta)))
        print_json(_plain(report)) if as_json else print_text(words.whole(report))
        return DONE
    page: DeltaPage = _ask(loaded, lambda ref: ref.ask(ListDeltas(before, limit)))
    if as_json:
        listed = [{**words.facts(each), **_fields(each)} for each in page.deltas]
        print_json({"deltas": listed, "more": page.more})
        return DONE
    for report in page.deltas:
        print_text(words.one_line(report, time.time()))
    if not page.deltas:
        print_text("nothing yet")
    if page.more:
        print_text(f"older ones: delta-supervisor journal --before {page.deltas[-1].id}")
    return DONE


@click.command()
@click.argument("delta")
@click.option("--force", multiple=True, metavar="FIELD", help="Put back although somebody changed it: T-1.status")
@stack_options
@json_option
def undo(delta: str, force: tuple[str, ...], as_json: bool, flags: Flags) -> int:
    """Undo an applied delta. The undo is a delta of its own and can be undone."""

    async def work(ref: Ref) -> DeltaReport:
        report = await ref.ask(Undo(delta, force))
        return await ref.ask(Apply(report.id)) if report.state is DeltaState.PLANNED else report

    report = _ask(_loaded(flags), work)
    code = _answer(report, as_json)
    kept = words.kept_fields(report)
    if kept and not as_json:
        forced = [part for field in kept for part in ("--force", field)]
        print_progress(f"From here: {command_line(flags, 'undo', *forced, delta)}")
    return PARTIAL if kept and code == DONE else code


@click.command()
@click.argument("delta")
@click.option("--only", is_flag=True, help="Approve, and leave the applying to whoever asked for it.")
@click.option("--yes", is_flag=True, help="Do not ask; only where the configuration allows it.")
@stack_options
@json_option
def approve(delta: str, only: bool, yes: bool, as_json: bool, flags: Flags) -> int:
    """Show a waiting delta, ask on the terminal, and apply it."""
    loaded = _loaded(flags)
    report = _ask(loaded, lambda ref: ref.ask(GetDelta(delta)))
    if yes:
        check_unasked(loaded.config)
    if report.state not in (DeltaState.WAITING, DeltaState.PLANNED):
        raise Refused(f"{words.outcome(report).splitlines()[0]}: there is nothing to approve")
    if not yes and not agreed(words.whole(report), "Apply this?"):
        raise Refused(f"{delta} was not approved; decline it with `delta-supervisor decline {delta}`")

    async def work(ref: Ref) -> DeltaReport:
        # What was decided already still waits for its apply where the journal died between the two.
        if only or report.state is DeltaState.WAITING:
            approved = await ref.ask(Approve(delta, CHANNEL))
            if only:
                return approved
        return await ref.ask(Apply(delta))

    answer = _ask(loaded, work)
    if only and not as_json:
        print_text(f"{delta} is approved; whoever asked for it may apply it now")
        return DONE
    if only:
        print_json({"delta": words.facts(answer)})
        return DONE
    code = _answer(answer, as_json)
    if answer.conflicts and not as_json:
        print_progress(f"From here: {command_line(flags, 'replan', delta)}")
    return code


@click.command()
@click.argument("delta")
@click.option("--reason", default="", help="Told to whoever asked for it.")
@stack_options
@json_option
def decline(delta: str, reason: str, as_json: bool, flags: Flags) -> int:
    """Decline a waiting delta."""
    report = _ask(_loaded(flags), lambda ref: ref.ask(Decline(delta, CHANNEL, reason)))
    print_json({"delta": words.facts(report)}) if as_json else print_text(words.outcome(report))
    return DONE


def _loaded(flags: Flags) -> Loaded:
    return load(flags, os.environ, Path.cwd())


def _ask(loaded: Loaded, work: Callable[[Ref], Awaitable[ResultT]]) -> ResultT:
    from delta_supervisor.cli.operator import ask

    return ask(loaded.state_dir, Role.JOURNAL, work)


def _answer(report: DeltaReport, as_json: bool) -> int:
    code = exit_of_state(str(report.state))
    if as_json:
        returned = None if report.returned is None else exact_json.decode(report.returned)
        print_json({"returned": returned, "delta": words.facts(report)})
    else:
        (print_text if code == DONE else print_progress)(words.outcome(report))
    return code


def _plain(report: DeltaReport) -> dict[str, Any]:
    """A whole report by field names."""
    made = [{name: getattr(call, name) for name in _CALL_FIELDS} for call in report.calls]
    return {**words.facts(report), **_fields(report), "made": made}


def _fields(report: DeltaReport) -> dict[str, Any]:
    """What a page has too; what is kept as JSON text becomes JSON."""
    returned = None if report.returned is None else exact_json.decode(report.returned)
    return {**{name: getattr(report, name) for name in _DELTA_FIELDS}, "returned": returned}


COMMANDS = (run, replan, journal, undo, approve, decline)

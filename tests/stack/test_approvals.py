"""Approvals by people at the command line, all at once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.stack.harness import Stack, running
from tests.stack.probing import Probe
from tests.stack.processes import kill
from tests.stack.victims import victims

AT_ONCE = 20


def test_twenty_approvals_at_once_make_the_change_once(home: Path) -> None:
    """acceptance 90."""
    config = f"""version = 1
[auth]
approve_without_terminal = true
[connectors.tickets]
command = "{sys.executable}"
args = ["-m", "delta_actors.demo.tickets", "--db", "{home}/state/tickets.db"]
reviewed = true
mode = "safe"
"""
    with running(home, config) as stack:
        delta = stack.run('await tickets.ticket.delete("T-2");')["delta"]
        assert delta["state"] == "waiting"
        command = stack.command("approve", "--config", str(stack.config), "--yes", delta["id"])
        people = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=home, env=stack.env)
            for _ in range(AT_ONCE)
        ]
        codes = [each.wait(90) for each in people]
        assert 0 in codes
        deltas: list[dict[str, Any]] = json.loads(stack.cli("journal", "--json").stdout)["deltas"]
        assert [each["state"] for each in deltas if each["id"] == delta["id"]] == ["applied"]
        with closing(sqlite3.connect(stack.state / "journal.db")) as journal:
            query = "SELECT count(*) FROM event WHERE delta = ? AND call IS NULL AND new = ?"
            for state in ("planned", "applying", "applied"):
                assert journal.execute(query, (delta["id"], state)).fetchone() == (1,), state


MOVING = {"applying", "rolling_back", "undoing"}


def settled_state(stack: Stack, delta: str) -> str:
    """Return the state that a delta comes to rest in."""
    until = time.monotonic() + 60
    while True:
        listed = stack.cli("journal", "--json")
        if listed.returncode == 0:
            states = {each["id"]: each["state"] for each in json.loads(listed.stdout)["deltas"]}
            if states[delta] not in MOVING:
                return str(states[delta])
        assert time.monotonic() < until, listed.stdout + listed.stderr
        time.sleep(0.1)


def kill_journal(stack: Stack) -> bool:
    """kill -9 the journal; False while there is none."""
    pid = victims(stack.status_or_none()).get("journal")
    if pid is not None:
        kill(pid)
    return pid is not None


@pytest.mark.parametrize("moment", ["once it is decided", "in the write", "again and again"])
def test_a_journal_that_dies_while_a_person_approves_tells_what_is_so_and_can_be_asked_again(
    moment: str, home: Path
) -> None:
    probe = Probe(home / "probe")
    probe.put(a="before")
    config = (
        "version = 1\n[supervision]\nmax_restarts = 1000\nwindow = 10.0\nbackoff = 0.05\nbackoff_max = 0.2\n"
        "[auth]\napprove_without_terminal = true\n" + probe.config("--write-seconds", "0.5", more='mode = "ask"\n')
    )
    with running(home, config) as stack:
        made = stack.run('const i = await probe.item.get("a"); i.value = "after";')["delta"]
        assert made["state"] == "waiting"
        approve = stack.command("approve", "--config", str(stack.config), "--yes", made["id"])
        first = [*approve, "--only"] if moment == "once it is decided" else approve
        person = subprocess.Popen(first, stdin=subprocess.DEVNULL, cwd=home, env=stack.env)
        if moment == "once it is decided":
            assert person.wait(60) == 0
            assert kill_journal(stack)
        elif moment == "in the write":
            probe.wait(lambda p: bool(p.events("call", "update_item")))
            assert kill_journal(stack)
        else:
            kills = 0
            while person.poll() is None and kills < 20:
                kills += kill_journal(stack)
        person.wait(90)
        stack.wait_ready()
        state = settled_state(stack, made["id"])
        assert state in {"waiting", "planned", "applied", "rolled_back"}, state
        assert moment != "once it is decided" or state == "planned", "a decision that was told is kept"
        assert probe.items()["a"] == ("after" if state == "applied" else "before"), state
        if state in {"waiting", "planned"}:
            assert (
                subprocess.run(approve, stdin=subprocess.DEVNULL, cwd=home, env=stack.env, check=False).returncode == 0
            )
            assert settled_state(stack, made["id"]) == "applied"
            assert probe.items()["a"] == "after"
        sent = [each["arguments"]["value"] for each in probe.events("call", "update_item")]
        assert sent.count("after") <= 1, "no write is sent again blindly"

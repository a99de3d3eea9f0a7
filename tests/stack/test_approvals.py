"""Approvals by people at the command line, all at once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.stack.harness import running

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

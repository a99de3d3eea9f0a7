"""A state directory that cannot be used ends the stack at once, in words, and is left as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.stack.harness import TICKET_TASK, prepared


def garbage(state: Path) -> None:
    (state / "journal.db").write_bytes(b"garbage" * 500)


def cut(state: Path) -> None:
    data = (state / "journal.db").read_bytes()
    (state / "journal.db").write_bytes(data[: len(data) // 2])


def newer(state: Path) -> None:
    with closing(sqlite3.connect(state / "journal.db")) as database:
        database.execute("PRAGMA user_version = 999")
        database.commit()


def short_key(state: Path) -> None:
    (state / "session.key").write_bytes(b"short")


@pytest.mark.parametrize(
    ("damage", "file", "remedy"),
    [
        (garbage, "journal.db", "move it away"),
        (cut, "journal.db", "move it away"),
        (newer, "journal.db", "another state directory"),
        (short_key, "session.key", "remove it"),
    ],
)
def test_what_no_restart_can_heal_ends_the_stack_with_the_file_and_the_remedy(
    damage: Callable[[Path], None], file: str, remedy: str, home: Path
) -> None:
    with prepared(home) as stack:
        stack.start()
        stack.run(TICKET_TASK)
        stack.stop()
        damage(stack.state)
        told = len(stack.output())
        before = (stack.state / file).read_bytes()
        stack.start(ready=False)
        assert stack.process is not None
        assert stack.process.wait(30) == 78
        output = stack.output()[told:]
        assert file in output
        assert remedy in output
        assert "Traceback" not in output
        assert "again in" not in output
        assert (stack.state / file).read_bytes() == before

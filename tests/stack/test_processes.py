"""The proof of the proof: what is left behind is found, wherever it hid."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.stack.processes import alive, descendants, kill, nothing_left_behind

ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        time.sleep(600)
    os._exit(0)
os.wait()
"""


def escape(note: Path) -> int:
    """Leave a process in a session of its own, its parents gone; returns its pid."""
    subprocess.run([sys.executable, "-c", ESCAPE, str(note)], check=True)
    while not note.exists():
        time.sleep(0.01)
    return int(note.read_text())


def test_a_process_that_forked_twice_into_a_session_of_its_own_is_found_and_ended(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"still running.*\n\d+ .*python"):
        with nothing_left_behind(grace=0.2):
            hidden = escape(tmp_path / "pid")
            assert hidden in [process.pid for process in descendants(os.getpid())]
    until = time.monotonic() + 5
    while alive(hidden) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(hidden)


def test_a_process_that_ends_in_time_is_no_fault(tmp_path: Path) -> None:
    with nothing_left_behind(grace=5):
        kill(escape(tmp_path / "pid"))


def test_the_exit_code_of_a_child_stays_with_whoever_started_it_however_late_he_looks() -> None:
    with nothing_left_behind():
        child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
        time.sleep(1.5)
        assert child.wait() == 7

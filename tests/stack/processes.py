"""Nobody is left behind: what a test started, however deep, is known and must be gone when the test ends.

For the length of a test the test process is the *subreaper* of its descendants: a process whose parent died becomes our
child instead of init's, so that neither a double fork nor a new session hides it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_LINGER = 15.0
"""Seconds after which a zombie that nobody waited for is taken for an adopted one, whoever was its parent at first."""


class Process(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    state: str
    started: int
    command: str


def table() -> dict[int, Process]:
    """Return all processes by pid."""
    found: dict[int, Process] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (process := read(int(entry.name))) is not None:
            found[process.pid] = process
    return found


def read(pid: int) -> Process | None:
    """Return one process, None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Process(pid, int(fields[1]), fields[0], int(fields[19]), command or f"[{name}]")


def descendants(of: int) -> list[Process]:
    """Return all living descendants, children before their own children; zombies do not count."""
    processes = table()
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [of]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += [process for process in below if process.state != "Z"]
        waiting += [process.pid for process in below]
    return found


def alive(pid: int) -> bool:
    """Tell whether the process exists and is no zombie."""
    process = read(pid)
    return process is not None and process.state != "Z"


def kill(pid: int) -> None:
    """kill -9; a process that is gone already is no error."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@contextmanager
def nothing_left_behind(grace: float = 20.0) -> Iterator[None]:
    """Fail with the command lines of what is still running `grace` seconds after the body; end it too."""
    before = {process.pid for process in descendants(os.getpid())}
    ended = threading.Event()
    reaper = threading.Thread(target=_reap_adopted, args=(before, ended), daemon=True)
    _subreaper(True)
    reaper.start()
    try:
        yield
        left = _wait_gone(before, grace)
    finally:
        for process in descendants(os.getpid()):
            if process.pid not in before:
                kill(process.pid)
        ended.set()
        reaper.join()
        _subreaper(False)
        for process in table().values():
            if process.parent == os.getpid() and process.state == "Z" and process.pid not in before:
                _reap(process.pid)
    assert not left, "still running after the test:\n" + "\n".join(f"{each.pid} {each.command}" for each in left)


def _wait_gone(before: set[int], grace: float) -> list[Process]:
    until = time.monotonic() + grace
    while True:
        left = [process for process in descendants(os.getpid()) if process.pid not in before]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)


def _reap_adopted(before: set[int], ended: threading.Event) -> None:
    """Do init's work for adopted children: those that once had another parent.

    What was started here is left to its owner, who may look at its exit code late: its pipes can stay open in a child.
    """
    adopted: set[tuple[int, int]] = set()
    zombies: dict[int, float] = {}
    while not ended.wait(0.1):
        for process in table().values():
            if process.parent != os.getpid():
                adopted.add((process.pid, process.started))
            elif process.state == "Z" and process.pid not in before:
                since = zombies.setdefault(process.pid, time.monotonic())
                if (process.pid, process.started) in adopted or time.monotonic() - since > _LINGER:
                    _reap(process.pid)
                    del zombies[process.pid]


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def _subreaper(on: bool) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")

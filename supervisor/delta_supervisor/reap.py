"""Processes as the kernel sees them: waited for by pidfd, killed as groups, swept when a dead stack left them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from delta_actors.runtime.processes import boot_id, start_time, stat_of

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Make orphaned descendants children of this process (prctl(2)), so that they can be reaped and seen."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Ended(msgspec.Struct, frozen=True):
    """How a process ended: an exit code, or the signal that killed it."""

    code: int | None
    signal: int | None

    @property
    def clean(self) -> bool:
        """Whether it ended by itself with code 0."""
        return self.code == 0

    def describe(self) -> str:
        """Return the end in words: `exit code 3`, `SIGKILL`."""
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"


class Process:
    """A child of this process, held by pidfd: its pid cannot be reused while this object waits.

    Raises `ProcessLookupError` from the constructor when there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        self.start_time = start_time(pid)
        self.ended: Ended | None = None

    async def wait(self) -> Ended:
        """Return how it ended, reaping it and killing what is left of its process group. For one waiter at a time."""
        while self.ended is None:
            await trio.lowlevel.wait_readable(self._descriptor)
            # Before reaping: until then the kernel gives the number to nobody else.
            self.signal_group(signal.SIGKILL)
            self._reap()
        return self.ended

    def signal(self, number: int) -> None:
        """Send a signal to this process alone; nothing happens when it has ended."""
        if self.ended is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group that it leads."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Let go of the pidfd."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _reap(self) -> None:
        try:
            result = os.waitid(os.P_PIDFD, self._descriptor, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            self.ended = Ended(None, signal.SIGKILL)
            return
        if result is None:
            return
        exited = result.si_code == os.CLD_EXITED
        self.ended = Ended(result.si_status, None) if exited else Ended(None, result.si_status)


class Left(msgspec.Struct, frozen=True):
    """A process that a stack started, as written down for the next start."""

    name: str
    pid: int
    start_time: int


class Record(msgspec.Struct, frozen=True):
    """The processes of one run. `boot` guards against equal numbers after a reboot."""

    boot: str
    processes: tuple[Left, ...] = ()


def write_record(file: Path, processes: tuple[Left, ...]) -> None:
    """Write down what runs, so that a next start can sweep it."""
    temporary = file.with_suffix(".new")
    temporary.write_bytes(msgspec.json.encode(Record(boot_id(), processes)))
    temporary.replace(file)


def sweep(file: Path) -> list[Left]:
    """Kill what an earlier run wrote down and did not end, by pid and start time; return what was killed."""
    try:
        record = msgspec.json.decode(file.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return []
    if record.boot != boot_id():
        return []
    killed: list[Left] = []
    for left in record.processes:
        if start_time(left.pid) == left.start_time:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(left.pid, signal.SIGKILL)
                killed.append(left)
    file.unlink(missing_ok=True)
    return killed


def reap_orphans(known: frozenset[int]) -> list[int]:
    """Reap ended children of this process that nobody waits for (adopted orphans); return their pids."""
    reaped: list[int] = []
    for pid in _children(os.getpid()):
        if pid in known:
            continue
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if done:
            reaped.append(done)
    return reaped


def is_descendant(pid: int, ancestor: int) -> bool:
    """Return whether `pid` is `ancestor` or lives below it. A process that is gone counts as one: nothing is proven."""
    seen = 0
    while pid > 1 and seen < 1000:
        if pid == ancestor:
            return True
        parent = stat_of(pid)
        if parent is None:
            return True
        pid, seen = int(parent[1]), seen + 1
    return pid == ancestor


def resident_bytes(pid: int) -> int:
    """Return the resident set of `pid`, bytes; 0 when it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            yield from (int(child) for child in (task / "children").read_text().split())

"""The small process between us and one connector: it ends the connector with everything it ever started.

Run as ``python -I -S guardian.py CONTROL_FD PROGRAM [ARG...]`` in a session of its own, with the connector's stdin,
stdout, stderr, environment and working directory; imports nothing of ours. It is a subreaper, so even a grandchild
that daemonised stays its descendant. Lines on the control socket (acceptance 31):

    guardian -> us   ``pid N`` once started; ``error ERRNO MESSAGE`` if it cannot be; ``exit STATUS`` when the connector
                     itself ended (as a shell counts: 128 + signal)
    us -> guardian   end of file, also by our own death: end everything

Then: stdin is closed (we hold its other end), 2 s, TERM to every descendant, 2 s, KILL until none is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
GRACE = 2.0
"""Seconds each between the end of input, TERM and KILL."""
_KILL_LIMIT = 30.0
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)


def main(arguments: list[str]) -> int:
    """Start the program, wait for it and for the control socket, leave nothing behind."""
    control = socket.socket(fileno=int(arguments[0]))
    os.set_inheritable(control.fileno(), False)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        child = os.posix_spawnp(
            arguments[1],
            arguments[1:],
            os.environ,
            setsigdef=_IGNORED,
            setsigmask=(),
            setpgroup=0,
        )
    except OSError as error:
        _tell(control, f"error {error.errno} {error.strerror}")
        return 127
    _tell(control, f"pid {child}")
    _release_streams()
    _Watch(control, child).run()
    return 0


def _tell(control: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):
        control.sendall(line.encode() + b"\n")


def _release_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


class _Watch:
    """Reaps everything that becomes a child of ours, and ends it in stages."""

    def __init__(self, control: socket.socket, child: int) -> None:
        self._control = control
        self._child = child
        self._child_runs = True
        self._children = True
        self._wake, notify = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(notify, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)

    def run(self) -> None:
        while self._child_runs and not self._control_ended():
            self._sleep(None, self._control.fileno())
            self._reap()
        if self._child_runs:
            self._wait_for_all(GRACE)
        _signal_descendants(signal.SIGTERM)
        self._wait_for_all(GRACE)
        end = time.monotonic() + _KILL_LIMIT
        while self._children and time.monotonic() < end:
            _signal_descendants(signal.SIGKILL)
            self._wait_for_all(0.05)

    def _wait_for_all(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self._reap()
        while self._children and (left := end - time.monotonic()) > 0:
            self._sleep(left)
            self._reap()

    def _sleep(self, seconds: float | None, *fds: int) -> None:
        ready, _, _ = select.select([self._wake, *fds], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 4096)

    def _control_ended(self) -> bool:
        try:
            return self._control.recv(4096, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._child:
                    self._child_runs = False
                    code = os.waitstatus_to_exitcode(status)
                    _tell(self._control, f"exit {code if code >= 0 else 128 - code}")
        except ChildProcessError:
            self._children = False


def _signal_descendants(number: int) -> None:
    """Signal every descendant. A pidfd is checked after opening, so a reused pid is never hit."""
    parents = _parents()
    family = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= found
    for pid in family - {os.getpid()}:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                if _parent_of(pid) in family:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = _parent_of(int(name))
            if parent is not None:
                found[int(name)] = parent
    return found


def _parent_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A connector's process under its guardian: start, streams, stderr ring, end (acceptance 29 to 31)."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from delta_actors.mcp import guardian
from delta_actors.mcp.stdio import PipeStream
from delta_protocol.mcp.errors import NotSent

STDERR_KEPT = 64 << 10
_CHUNK = 64 << 10
_END_LIMIT = 4 * guardian.GRACE
_STATUS_WAIT = 1.0


class GuardedProcess:
    """A running program with its descendants. `aclose` leaves none of them."""

    def __init__(
        self, popen: subprocess.Popen[bytes], control: socket.socket, stdin: int, stdout: int, stderr: int
    ) -> None:
        self._popen = popen
        self._control = trio.socket.from_stdlib_socket(control)
        self._stderr = trio.lowlevel.FdStream(stderr)
        self._ring = bytearray()
        self._reported = trio.Event()
        self._started = trio.Event()
        self._problem = ""
        self.stdin = stdin
        self.stdout = PipeStream(stdout)
        self.pid: int | None = None
        self.status: int | None = None

    @classmethod
    def start(
        cls, command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | Path | None
    ) -> GuardedProcess:
        """Start the guardian. Call from trio's own thread. Raises `NotSent` where not even that works."""
        control, theirs = socket.socketpair()
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        passed = (stdin[0], stdout[1], stderr[1])
        line = [sys.executable, "-I", "-S", guardian.__file__, str(theirs.fileno()), command, *args]
        try:
            popen = subprocess.Popen(
                line,
                stdin=passed[0],
                stdout=passed[1],
                stderr=passed[2],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=env,
                cwd=cwd,
            )
        except (OSError, ValueError) as error:
            control.close()
            for fd in (stdin[1], stdout[0], stderr[0]):
                os.close(fd)
            raise NotSent(f"cannot start {command!r}: {error}") from None
        finally:
            theirs.close()
            for fd in passed:
                os.close(fd)
        os.set_blocking(stdin[1], False)
        return cls(popen, control, stdin[1], stdout[0], stderr[0])

    async def watch(self) -> None:
        """Run for the process's life: take the guardian's reports and drain stderr."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drain)
            await self._listen()

    async def wait_started(self) -> None:
        """Return once the program runs. Raises `NotSent` where it cannot be started."""
        await self._started.wait()
        if self._problem:
            raise NotSent(self._problem)

    async def wait_ended(self) -> str:
        """Wait a moment for the exit status, and return why the process is gone, in words."""
        with trio.move_on_after(_STATUS_WAIT):
            await self._reported.wait()
        if self.status is None:
            return "it closed its output"
        if self.status > 128:
            return f"it was killed by signal {self.status - 128}"
        return f"it exited with status {self.status}"

    @property
    def stderr_tail(self) -> str:
        """The last of what the program wrote to stderr."""
        return self._ring.decode(errors="replace")

    async def aclose(self) -> None:
        """End the program and everything it started, and reap the guardian. Bounded, and not cut by cancellation."""
        with trio.CancelScope(shield=True):
            if self.stdin >= 0:
                os.close(self.stdin)
                self.stdin = -1
            self._control.close()
            await self.stdout.aclose()
            await self._stderr.aclose()
            with trio.move_on_after(_END_LIMIT) as limit:
                await _wait_exit(self._popen)
            if limit.cancelled_caught:
                self._popen.kill()
                await _wait_exit(self._popen)

    async def _listen(self) -> None:
        buffer = b""
        with contextlib.suppress(OSError, trio.ClosedResourceError):
            while data := await self._control.recv(4096):
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    self._report(line.decode(errors="replace"))
        self._problem = self._problem or ("" if self.pid else "its guardian ended")
        self._started.set()
        self._reported.set()

    def _report(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "pid":
            self.pid = int(rest)
            self._started.set()
        elif word == "exit":
            self.status = int(rest)
            self._reported.set()
        elif word == "error":
            self._problem = f"cannot start {self._popen.args[5]!r}: {rest.partition(' ')[2]}"  # type: ignore[index]

    async def _drain(self) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in self._stderr:
                self._ring += chunk
                if len(self._ring) > STDERR_KEPT:
                    del self._ring[:-STDERR_KEPT]


async def _wait_exit(popen: subprocess.Popen[bytes]) -> None:
    descriptor = os.pidfd_open(popen.pid)
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
    popen.wait()

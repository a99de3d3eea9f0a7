"""Lines to and from a process: the writer knows how much went into the pipe (acceptance 34).

A call whose line did not fit completely into the pipe was certainly not carried out.
"""

from __future__ import annotations

import os
import select

import trio

from delta_actors.mcp.client_calls import OpenCall
from delta_actors.mcp.client_process import GuardedProcess
from delta_actors.mcp.message_client import MessageClient
from delta_protocol.mcp.lines import LineSplitter, LineTooLong


class LineClient(MessageClient):
    """JSON-RPC with one process, a message a line; `max_line` in bytes."""

    def __init__(self, process: GuardedProcess, max_line: int) -> None:
        super().__init__()
        self.process = process
        self._splitter = LineSplitter(max_line)
        self._ended = False

    @property
    def pid(self) -> int | None:
        """The process's id."""
        return self.process.pid

    @property
    def stderr_tail(self) -> str:
        """The last of its stderr."""
        return self.process.stderr_tail

    async def watch(self) -> None:
        """Watch the process."""
        await self.process.watch()

    async def why_ended(self) -> str:
        """Return how the process ended."""
        return await self.process.wait_ended()

    def write_at_once(self, text: bytes) -> bool:
        """Write a short line: so much a pipe takes whole or not at all (POSIX write)."""
        if len(text) >= select.PIPE_BUF:
            return False
        try:
            return os.write(self.process.stdin, text + b"\n") > 0
        except OSError:
            return False

    async def write(self, text: bytes, call: OpenCall | None) -> bool:
        """Write a line; its call is sent with the last byte before the line's end."""
        data = memoryview(text + b"\n")
        written = 0
        while written < len(data):
            try:
                written += os.write(self.process.stdin, data[written:])
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.process.stdin)
            except OSError:
                return False
            if call is not None and written >= len(text):
                call.sent = True
        await trio.lowlevel.checkpoint()
        return True

    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the lines that the next bytes completed."""
        if self._ended:
            return None
        try:
            chunk = await self.process.stdout.receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            chunk = b""
        if chunk:
            return self._splitter.feed(chunk)
        self._ended = True
        return self._splitter.finish()

"""This process's own stdin and stdout as byte streams for one MCP session.

Stdout carries nothing but messages (spec 1.6): while a session runs, file descriptor 1 points at stderr, so that a
stray print or a child's output cannot break the framing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from trio.abc import ReceiveStream, SendStream

_CHUNK = 64 << 10


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[tuple[ReceiveStream, SendStream], None]:
    """Take stdin and stdout for the length of the block; both are given back afterwards."""
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    blocking = {fd: os.get_blocking(fd) for fd in (stdin, stdout)}
    saved = os.dup(stdin), os.dup(stdout)
    try:
        async with _receive_stream(stdin) as receive, _send_stream(stdout) as send:
            yield receive, send
    finally:
        for number, (kept, fd) in enumerate(zip(saved, blocking, strict=True)):
            os.set_blocking(kept, blocking[fd])
            os.dup2(kept, number)
            os.close(kept)


def _receive_stream(fd: int) -> ReceiveStream:
    return PipeStream(fd) if _is_pollable(fd) else _ThreadStream(fd)


def _send_stream(fd: int) -> SendStream:
    return PipeStream(fd) if _is_pollable(fd) else _ThreadStream(fd)


def _is_pollable(fd: int) -> bool:
    """Pipes and sockets can be waited on; files cannot, and a terminal's mode is shared with the shell."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class PipeStream(trio.abc.ReceiveStream, trio.abc.SendStream):
    """A pipe or socket by its descriptor: tries before it waits, which trio's own streams do the other way round.

    That spares a turn of the event loop for each read and write. Takes the descriptor over.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what is there, waiting for the first byte; empty at the end."""
        await trio.lowlevel.checkpoint_if_cancelled()
        waited = False
        while True:
            try:
                data = os.read(self._open(), max_bytes or _CHUNK)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._open())
                waited = True
            except OSError as error:
                raise trio.BrokenResourceError from error
            else:
                if not waited:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                return data

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        """Write what goes without waiting and return how much that was."""
        try:
            return os.write(self._open(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write everything; one task at a time."""
        await trio.lowlevel.checkpoint_if_cancelled()
        rest = memoryview(data)[self.send_now(data) :]
        while rest:
            await trio.lowlevel.wait_writable(self._open())
            rest = rest[self.send_now(rest) :]
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until a byte can be written."""
        await trio.lowlevel.wait_writable(self._open())

    async def aclose(self) -> None:
        """Close the descriptor; who waits on it is woken."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            trio.lowlevel.notify_closing(fd)
            os.close(fd)
        await trio.lowlevel.checkpoint()

    def _open(self) -> int:
        if self._fd < 0:
            raise trio.ClosedResourceError
        return self._fd


class _ThreadStream(trio.abc.ReceiveStream, trio.abc.SendStream):
    """A descriptor that can only block: reads and writes run in a thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await trio.to_thread.run_sync(os.read, self._fd, max_bytes or _CHUNK, abandon_on_cancel=True)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            try:
                written = await trio.to_thread.run_sync(os.write, self._fd, rest, abandon_on_cancel=True)
            except OSError as error:
                raise trio.BrokenResourceError from error
            rest = rest[written:]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        await trio.lowlevel.checkpoint()

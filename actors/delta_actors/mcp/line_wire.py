"""One JSON-RPC message a line over byte streams (spec 1.6): stdio, a relay's socket, any trio stream."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.abc import ReceiveStream, SendStream

from delta_actors.mcp.stdio import PipeStream
from delta_protocol.mcp.lines import LineSplitter, LineTooLong


class LineWire:
    """The server's end of one connection; `max_line` in bytes. The streams stay the caller's."""

    hears_after_end = True
    """A client that closed its side may still read: its requests may finish."""

    def __init__(self, receive: ReceiveStream, send: SendStream, max_line: int) -> None:
        self.max_message = max_line
        self._receive = receive
        self._send = send
        self._splitter = LineSplitter(max_line)
        self._ended = False

    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the messages that the next bytes completed, possibly none; None after the end."""
        if self._ended:
            return None
        try:
            chunk = await self._receive.receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            chunk = b""
        if chunk:
            return self._splitter.feed(chunk)
        self._ended = True
        return self._splitter.finish()

    async def send(self, messages: Sequence[bytes]) -> None:
        """Write messages; one task at a time. Raises `trio.BrokenResourceError`, `trio.ClosedResourceError`."""
        await self._send.send_all(b"\n".join(messages) + b"\n")

    def send_now(self, message: bytes) -> bytes | None:
        """Write what goes without waiting; return what is left of the message, None where nothing was tried."""
        send = self._send
        if not isinstance(send, PipeStream):
            return None
        line = message + b"\n"
        return line[send.send_now(line) : -1]

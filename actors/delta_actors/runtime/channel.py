"""A socket that carries envelopes: one reader, one writer task, and as few scheduler passes per message as can be.

A message goes out at once when nothing else is on its way (latency); otherwise the writer task takes everything that
was posted in one scheduler pass with one `send` (throughput). Posting never blocks; whoever posts much waits in
`drained`. Reading takes up to 64 KiB and decodes all frames in it: larger reads would cost a fresh mapping each.
"""

from __future__ import annotations

from collections.abc import Callable
from socket import SHUT_RDWR, socket
from typing import Any, Generic, TypeVar

import msgspec
import outcome
import trio

from delta_protocol.errors import ProtocolViolation
from delta_protocol.framing import MAX_MESSAGE, FrameReader, FrameWriter

EnvelopeT = TypeVar("EnvelopeT")

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding hostile bytes may raise."""

RECEIVE = 64 << 10
HIGH_WATER = 256 << 10
"""Unsent bytes above which senders wait."""

LOW_WATER = 64 << 10


class Channel(Generic[EnvelopeT]):
    """One end of a connected stream socket. Owns the socket; `close` may be called more than once."""

    def __init__(self, sock: socket, kinds: Any, *, limit: int = MAX_MESSAGE) -> None:  # noqa: ANN401 - a type expression
        sock.setblocking(False)
        self._socket = sock
        self._reader = FrameReader(limit)
        self._out = FrameWriter()
        self._decode: Callable[[memoryview], EnvelopeT] = msgspec.msgpack.Decoder(kinds).decode
        self._writer: trio.lowlevel.Task | None = None
        self._full = trio.lowlevel.ParkingLot()
        self._empty = trio.lowlevel.ParkingLot()
        self._corked = False
        self._choked = False
        self.broken = False
        """Whether the peer takes no more."""
        self.closed = False

    def expect(self, kinds: Any, limit: int = MAX_MESSAGE) -> None:  # noqa: ANN401 - a type expression
        """Change what is understood from now on: after the greeting."""
        self._decode = msgspec.msgpack.Decoder(kinds).decode
        self._reader.limit = limit

    @property
    def unsent(self) -> int:
        """Bytes posted and not yet taken by the kernel."""
        return self._out.size

    @property
    def full(self) -> bool:
        """Whether senders must wait in `drained`."""
        return self._out.size > HIGH_WATER

    @property
    def appended(self) -> int:
        """Bytes ever put into the buffer; see `left`."""
        return self._out.appended

    def left(self, key: int, appended: int) -> bool:
        """Whether a message may have reached the peer: `appended` is the value right after it was posted as `key`."""
        return self._out.taken >= appended and not self._out.holds(key)

    def post(self, message: object, *, key: int | None = None, now: bool = False) -> None:
        """Send in order. `now`: nothing else is under way, so try the kernel at once. Dropped when broken.

        Raises what msgspec raises for what cannot be encoded, `ProtocolViolation` for what is too long.
        """
        if not self.broken:
            self._out.post(message, key=key)
            self._go(now)

    def post_control(self, message: object) -> None:
        """Send before all that waits in parts. Dropped when broken."""
        if not self.broken:
            self._out.post_control(message)
            self._go(now=False)

    def withdraw(self, key: int) -> bool:
        """Take back a message that has not wholly left; whether that was possible."""
        return self._out.withdraw(key)

    def try_send(self) -> None:
        """Hand the kernel what it takes now, before there is a writer task. A greeting always fits."""
        if self._out.buffer:
            self._send()

    def cork(self) -> None:
        """Hold back what is posted until `uncork`: for the answers to one batch."""
        self._corked = True

    def uncork(self) -> None:
        """Send what was held back with one call."""
        self._corked = False
        if self._out.buffer:
            self._go(now=True)

    async def drained(self) -> None:
        """Wait until there is room in the write buffer (a checkpoint only if there is none)."""
        while self._out.size > HIGH_WATER and not self.broken:
            await self._full.park()

    async def flushed(self) -> None:
        """Wait until the kernel has taken everything, or the peer takes no more."""
        while self._out.size and not self.broken:
            await self._empty.park()

    async def receive(self) -> list[EnvelopeT]:
        """Wait for at least one message; an empty list means the peer has closed.

        Raises `ProtocolViolation` when the peer does not speak our protocol.
        """
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                data = self._socket.recv(RECEIVE)
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError):
                return []
            if not data:
                return []
            try:
                messages = [self._decode(message) for message in self._reader.feed(data)]
            except UNREADABLE as error:
                raise ProtocolViolation(f"an unreadable frame: {error}") from error
            if messages:
                return messages

    async def write(self) -> None:
        """Be the writer task. Returns when the peer takes no more."""
        while not self.broken:
            if not self._out.buffer:
                await self._park()
            elif not self._send():
                self._choked = True
                try:
                    await trio.lowlevel.wait_writable(self._socket)
                except trio.ClosedResourceError:
                    return
                finally:
                    self._choked = False

    def close(self) -> None:
        """Close the socket and let all who wait go on."""
        if not self.closed:
            self.closed = self.broken = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._unpark_all()
            self._wake()

    def hang_up(self) -> None:
        """Break the connection so that this end's reader sees its end."""
        try:
            self._socket.shutdown(SHUT_RDWR)
        except OSError:
            pass

    def _go(self, now: bool) -> None:
        if self._corked:
            return
        # While the writer waits for the socket to become writable, the kernel would take nothing anyway.
        if now and not self._choked and self._send():
            return
        self._wake()

    def _send(self) -> bool:
        """Hand the kernel what it takes; whether that was everything in the buffer."""
        try:
            count = self._socket.send(self._out.buffer)
        except BlockingIOError:
            return False
        except OSError:
            # The reader is the one who tells everybody, so it must not wait for a peer that is gone.
            self.broken = True
            self.hang_up()
            self._unpark_all()
            return True
        self._out.sent(count)
        if self._out.size <= LOW_WATER:
            self._full.unpark_all()
        if self._out.buffer:
            return False
        self._empty.unpark_all()
        return True

    def _unpark_all(self) -> None:
        self._full.unpark_all()
        self._empty.unpark_all()

    def _wake(self) -> None:
        task, self._writer = self._writer, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def _park(self) -> None:
        self._writer = trio.lowlevel.current_task()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)


def resume(task: trio.lowlevel.Task, value: object) -> None:
    """Wake `task` with a value, or raise it there when it is an exception."""
    trio.lowlevel.reschedule(task, outcome.Error(value) if isinstance(value, BaseException) else outcome.Value(value))

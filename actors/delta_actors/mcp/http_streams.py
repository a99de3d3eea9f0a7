"""Resumable streams of legacy sessions: what was sent for a request, kept for a client that comes back (spec 3.7).

A client that lost its connection, or was let go in the middle of a call, names the last event it saw and is given the
rest, at most once over one connection at a time. Streams are kept in memory: a restart of the server loses them, and
with them the requests in progress.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable

import trio

from delta_protocol.mcp import sse

MAX_STREAM = 1 << 20
"""Bytes kept of one stream; beyond it the oldest events go, never the newest."""
MAX_KEPT = 64 << 20
"""Bytes kept of all ended streams together; beyond it the oldest streams go."""
LIFETIME = 300.0
"""Seconds that an ended stream is kept."""
RETRY = 500
"""Milliseconds that a client waits before it comes back."""


class Stream:
    """One request's events. Whoever attached last is the reader; all others must stop sending."""

    def __init__(self, session: str, on_end: Callable[[Stream], None]) -> None:
        self.session = session
        self.name = secrets.token_urlsafe(9)
        self.size = 0
        self.ended_at: float | None = None
        self._on_end = on_end
        self._events: deque[bytes] = deque()
        self._next = 1
        self._reader = 0
        self._changed = trio.Event()

    def attach(self) -> int:
        """Become the reader and return the number that says so."""
        self._reader += 1
        self._wake()
        return self._reader

    def reads(self, reader: int) -> bool:
        """Whether `reader` is still the one."""
        return reader == self._reader

    def prime(self, *, empty: bool) -> bytes:
        """Return the text that begins the stream: how long to wait, and with `empty` an event without a message.

        Clients before 2025-11-25 may not know what to do with that event.
        """
        return sse.encode(b"", id=f"{self.name}.0", retry=RETRY) if empty else b"retry: %d\n\n" % RETRY

    def append(self, message: bytes) -> bytes:
        """Keep a message and return its event."""
        event = sse.encode(message, id=f"{self.name}.{self._next}")
        self._next += 1
        self._events.append(event)
        self.size += len(event)
        while self.size > MAX_STREAM and len(self._events) > 1:
            self.size -= len(self._events.popleft())
        self._wake()
        return event

    def end(self) -> None:
        """No event follows."""
        if self.ended_at is None:
            self.ended_at = trio.current_time()
            self._on_end(self)
            self._wake()

    async def next_after(self, number: int, reader: int) -> tuple[int, bytes] | None:
        """Return the first kept event after `number`, with its number, once there is one.

        None where the stream ended, or somebody else reads it.
        """
        while self.reads(reader):
            first = self._next - len(self._events)
            found = max(number + 1, first)
            if found < self._next:
                return found, self._events[found - first]
            if self.ended_at is not None:
                break
            await self._changed.wait()
        return None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Streams:
    """The streams of all sessions."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._ended: deque[Stream] = deque()
        self._kept = 0

    def open(self, session: str) -> Stream:
        """Begin a stream of the session of that name."""
        stream = Stream(session, self._keep)
        self._streams[stream.name] = stream
        return stream

    def find(self, session: str, event_id: str) -> tuple[Stream, int] | None:
        """Return the session's stream that an event id belongs to, and the event's number; None for any other text."""
        name, _, number = event_id.rpartition(".")
        stream = self._streams.get(name)
        known = stream is not None and stream.session == session
        if stream is None or not known or not (number.isascii() and number.isdigit() and len(number) < 12):
            return None
        return stream, int(number)

    def _keep(self, stream: Stream) -> None:
        """Keep a stream that ended, and let go of those that ended long ago or take too much room."""
        self._ended.append(stream)
        self._kept += stream.size
        expired = trio.current_time() - LIFETIME
        while self._ended and (self._kept > MAX_KEPT or (self._ended[0].ended_at or 0) < expired):
            oldest = self._ended.popleft()
            self._kept -= oldest.size
            del self._streams[oldest.name]

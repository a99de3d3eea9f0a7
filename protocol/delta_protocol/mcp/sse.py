"""Server-sent events (WHATWG HTML 9.2), as MCP uses them: JSON text in `data`, comments as keep-alive."""

from __future__ import annotations

import msgspec

KEEP_ALIVE = b": keep-alive\n\n"


class Event(msgspec.Struct, frozen=True):
    """One dispatched event. `retry` is in milliseconds."""

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventTooLong(Exception):
    """An event passed the parser's limit."""


def encode(data: bytes, *, event: str = "message", id: str | None = None, retry: int | None = None) -> bytes:  # noqa: A002
    """Return an event's text; `retry` in milliseconds. JSON has no line break outside its tokens that a split would
    hurt."""
    head = b"event: " + event.encode() + b"\n"
    if id is not None:
        head += b"id: " + id.encode() + b"\n"
    if retry is not None:
        head += b"retry: %d\n" % retry
    return head + (b"".join(b"data: " + line + b"\n" for line in data.splitlines()) or b"data:\n") + b"\n"


class SseParser:
    """Any chunks of bytes in, events out; unknown fields and comments are skipped. Raises `EventTooLong`."""

    def __init__(self, max_event: int = 64 << 20) -> None:
        self._max_event = max_event
        self._buffer = bytearray()
        self._started = False
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next chunk and return the events it completed."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._buffer += chunk
        if chunk.endswith(b"\r"):
            self._after_cr = True
        if not self._started:
            if len(self._buffer) < 3 and b"\xef\xbb\xbf".startswith(self._buffer):
                return []
            self._started = True
            if self._buffer.startswith(b"\xef\xbb\xbf"):
                del self._buffer[:3]
        if b"\n" not in chunk and b"\r" not in chunk:
            self._check(len(self._buffer))
            return []
        return self._events()

    def _events(self) -> list[Event]:
        text = bytes(self._buffer).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._buffer = bytearray(rest)
        found: list[Event] = []
        for line in lines:
            if line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                found.append(event)
        self._check(len(rest))
        return found

    def _check(self, pending: int) -> None:
        if self._size + pending > self._max_event:
            raise EventTooLong(f"an event of more than {self._max_event} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value)
                self._check(0)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self._retry = int(value)
            case _:
                pass

    def _dispatch(self) -> Event | None:
        data, event, retry = b"\n".join(self._data), self._event or "message", self._retry
        had_data = bool(self._data)
        self._data, self._size, self._event, self._retry = [], 0, "", None
        if not had_data and retry is None:
            return None
        return Event(data, event, self._id, retry)

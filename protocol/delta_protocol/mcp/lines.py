"""Newline-delimited framing (spec 1.6): any chunks of bytes in, whole lines out, with a bound on a line's length."""

from __future__ import annotations

MAX_LINE = 64 << 20

_BOM = b"\xef\xbb\xbf"


class LineTooLong:
    """Stands in the output for a line that was dropped because it passed the limit."""


TOO_LONG = LineTooLong()


class LineSplitter:
    """Cuts a byte stream into lines. Blank lines are left out; a byte order mark and carriage returns are dropped."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, data: bytes | bytearray) -> list[bytes | LineTooLong]:
        """Take the next chunk and return what it completed."""
        found: list[bytes | LineTooLong] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end], found)
            self._finish(found)
            start = end + 1
        self._take(data[start:], found)
        return found

    def finish(self) -> list[bytes | LineTooLong]:
        """The stream ended: return a last line that had no line end."""
        found: list[bytes | LineTooLong] = []
        self._finish(found)
        return found

    def _take(self, part: bytes | bytearray, found: list[bytes | LineTooLong]) -> None:
        if self._skipping:
            return
        self._buffer += part
        if len(self._buffer) > self._max_line:
            self._buffer = bytearray()
            self._skipping = True
            found.append(TOO_LONG)

    def _finish(self, found: list[bytes | LineTooLong]) -> None:
        line = bytes(self._buffer).removeprefix(_BOM).strip(b" \t\r")
        self._buffer = bytearray()
        self._skipping = False
        if line:
            found.append(line)

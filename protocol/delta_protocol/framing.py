"""Frames: a length-prefixed stream that carries messages of any allowed size, and lets control frames pass.

Theory of operation
    frame    = u32 little-endian word, then `length` bytes.
    word     = length in the low 24 bits, flags in the top 8.
    PART     the frame is a piece of a longer message; `LAST` marks its end, `DROP` forgets what came of it so far.

A frame holds at most `MAX_FRAME` bytes. A longer message is cut into parts; as in RFC 6455 5.4 whole frames may stand
between the parts of one message, parts of two messages never mix. So messages keep their order, a control frame waits
for at most one part, and a receiver holds at most one unfinished message.

`FrameReader` takes bytes as they come and returns all messages complete by then. `FrameWriter` gathers frames into one
buffer that a driver sends with as few system calls as it can. Neither knows sockets, clocks or what a message means.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

import msgspec

from delta_protocol.errors import ProtocolViolation

MAX_FRAME = 64 << 10
"""Bytes in one frame's payload."""

MAX_MESSAGE = 64 << 20
"""Bytes in one message, all parts together."""

_WORD = Struct("<I")
_HEADER = _WORD.size
_LENGTH = (1 << 24) - 1
PART = 1 << 31
LAST = 1 << 30
DROP = 1 << 29


class FrameReader:
    """Bytes in, whole messages out. `limit` (bytes per message) may be raised once the peer has earned it."""

    __slots__ = ("_left", "_parts", "_size", "limit")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self.limit = limit
        self._left = b""
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[memoryview]:
        """Return the messages that `data` completes, in order.

        Raises `ProtocolViolation` for a length or flag that no writer of ours makes; the stream is unusable then.
        """
        if self._left:
            data = self._left + data
        end = len(data)
        view = memoryview(data)
        messages: list[memoryview] = []
        position = 0
        while end - position >= _HEADER:
            word: int = _WORD.unpack_from(data, position)[0]
            length = word & _LENGTH
            if length > MAX_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes; the most is {MAX_FRAME}")
            after = position + _HEADER + length
            if after > end:
                break
            payload = view[position + _HEADER : after]
            if word == length:
                if length > self.limit:
                    raise ProtocolViolation(f"a message of {length} bytes; the most is {self.limit} here")
                messages.append(payload)
            elif (message := self._part(word, payload)) is not None:
                messages.append(message)
            position = after
        self._left = data[position:]
        return messages

    def _part(self, word: int, payload: memoryview) -> memoryview | None:
        flags = word & ~_LENGTH
        if flags == PART | DROP and not payload:
            self._clear()
            return None
        if flags not in (PART, PART | LAST) or not payload:
            raise ProtocolViolation(f"unknown frame flags {flags >> 24:#04x} with {len(payload)} bytes")
        self._size += len(payload)
        if self._size > self.limit:
            raise ProtocolViolation(f"a message of more than {self.limit} bytes")
        self._parts.append(bytes(payload))
        if flags == PART:
            return None
        message = memoryview(b"".join(self._parts))
        self._clear()
        return message

    def _clear(self) -> None:
        self._parts = []
        self._size = 0


class _Waiting:
    """A message that is too long for one frame, or stands behind one that is."""

    __slots__ = ("begun", "data", "key", "position")

    def __init__(self, data: bytes, key: int | None) -> None:
        self.data = data
        self.key = key
        self.position = 0
        self.begun = False


class FrameWriter:
    """Messages in, one buffer of frames out.

    `buffer` is what to send next; the driver calls `sent(n)` for what the kernel took, which also moves parts of long
    messages up. `appended` and `taken` count bytes since the beginning, so that one can tell whether a message left.
    """

    __slots__ = ("_encoder", "_limit", "_size", "_waiting", "appended", "buffer", "taken")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self.buffer = bytearray()
        self.appended = 0
        self.taken = 0
        self._waiting: deque[_Waiting] = deque()
        self._size = 0
        self._limit = limit
        self._encoder = msgspec.msgpack.Encoder()

    @property
    def size(self) -> int:
        """Bytes not yet taken by the kernel, long messages included."""
        return len(self.buffer) + self._size

    def post(self, message: object, *, key: int | None = None) -> None:
        """Append a message behind all others. `key` names it for `withdraw` and `holds`.

        Raises `TypeError` (or what msgspec raises) for what cannot be encoded and `ProtocolViolation` for what is too
        long; nothing is appended then.
        """
        start = len(self.buffer)
        length = self._encode(message, start)
        if length <= MAX_FRAME and not self._waiting:
            _WORD.pack_into(self.buffer, start, length)
            self.appended += length + _HEADER
            return
        data = bytes(self.buffer[start + _HEADER :])
        del self.buffer[start:]
        if length > self._limit:
            raise ProtocolViolation(f"a message of {length} bytes; the most is {self._limit}")
        self._waiting.append(_Waiting(data, key))
        self._size += length
        self._refill()

    def post_control(self, message: object) -> None:
        """Append a short message before all that waits in parts."""
        start = len(self.buffer)
        length = self._encode(message, start)
        if length > MAX_FRAME:
            del self.buffer[start:]
            raise ProtocolViolation(f"a control message of {length} bytes; the most is {MAX_FRAME}")
        _WORD.pack_into(self.buffer, start, length)
        self.appended += length + _HEADER

    def sent(self, count: int) -> None:
        """Note that the kernel took `count` bytes of `buffer`."""
        self.taken += count
        if count == len(self.buffer):
            self.buffer.clear()
        else:
            del self.buffer[:count]
        if self._waiting:
            self._refill()

    def withdraw(self, key: int) -> bool:
        """Take a waiting message back. Returns False when it is already in the buffer, whole."""
        for waiting in self._waiting:
            if waiting.key == key:
                self._waiting.remove(waiting)
                self._size -= len(waiting.data) - waiting.position
                if waiting.begun:
                    self._append(PART | DROP, b"")
                self._refill()
                return True
        return False

    def holds(self, key: int) -> bool:
        """Whether some of the message is still waiting here, so that the peer cannot have read it."""
        return any(waiting.key == key for waiting in self._waiting)

    def _encode(self, message: object, start: int) -> int:
        try:
            self._encoder.encode_into(message, self.buffer, start + _HEADER)
        except BaseException:
            del self.buffer[start:]
            raise
        return len(self.buffer) - start - _HEADER

    def _append(self, flags: int, payload: bytes) -> None:
        self.buffer += _WORD.pack(flags | len(payload))
        self.buffer += payload
        self.appended += len(payload) + _HEADER

    def _refill(self) -> None:
        while self._waiting and len(self.buffer) < MAX_FRAME:
            first = self._waiting[0]
            if not first.begun and len(first.data) <= MAX_FRAME:
                flags, piece = 0, first.data
            else:
                piece = first.data[first.position : first.position + MAX_FRAME]
                flags = PART | LAST if first.position + len(piece) == len(first.data) else PART
            first.begun = True
            first.position += len(piece)
            self._size -= len(piece)
            self._append(flags, piece)
            if first.position == len(first.data):
                self._waiting.popleft()

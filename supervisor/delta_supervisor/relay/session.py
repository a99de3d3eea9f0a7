"""What a relay remembers of its client's MCP session, to re-establish it after a restart of the transport.

Pure: lines in, lines out. The client must not notice a restart, except that requests whose outcome was lost are
answered with a typed error: the relay never sends a request twice, save `initialize`, which has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

INTERNAL_ERROR = -32603
"""JSON-RPC 2.0: Internal error. `data.code` says which."""

LOST = (
    "the stack's transport ended during this request; what became of it is in the journal, "
    "and repeating the same `delta` returns its outcome"
)


def is_request(line: bytes) -> bool:
    """Return whether a line asks for an answer."""
    head = _head(line)
    return head is None or (head.method is not None and bool(head.id))


class _Head(msgspec.Struct):
    """The parts of a JSON-RPC message that a relay looks at; `id` as its own JSON text."""

    id: msgspec.Raw = msgspec.Raw(b"")
    method: str | None = None


_decode = msgspec.json.Decoder(_Head).decode


class Session:
    """One client's session. Not thread-safe: the pump locks."""

    def __init__(self) -> None:
        self._initialize: bytes | None = None
        self._initialize_id = b""
        self._initialized: bytes | None = None
        self._in_flight: dict[bytes, str] = {}
        self._questions: set[bytes] = set()
        self._swallow: bytes | None = None

    @property
    def idle(self) -> bool:
        """Whether every request of the client is answered."""
        return not self._in_flight

    @property
    def resuming(self) -> bool:
        """Whether the answer to a repeated `initialize` is still awaited."""
        return self._swallow is not None

    def from_client(self, line: bytes) -> bool:
        """Take note of a line of the client; whether it is to be sent on.

        An answer to a question of an earlier transport is not: the new one would not know what it answers.
        """
        head = _head(line)
        if head is None:
            return True
        identity = bytes(head.id)
        if head.method is None:
            known = identity in self._questions
            self._questions.discard(identity)
            return known
        if head.method == "initialize":
            self._initialize, self._initialize_id, self._initialized = line, identity, None
        elif head.method == "notifications/initialized":
            self._initialized = line
        if identity:
            self._in_flight[identity] = head.method
        return True

    def from_server(self, line: bytes) -> bool:
        """Take note of a line of the server; whether the client is to see it."""
        head = _head(line)
        if head is None:
            return True
        identity = bytes(head.id)
        if head.method is not None:
            if identity:
                self._questions.add(identity)
            return True
        if self._swallow is not None and identity == self._swallow:
            self._swallow = None
            return False
        self._in_flight.pop(identity, None)
        return True

    def lost(self) -> Iterator[bytes]:
        """The connection broke: the lines that tell the client what became of its requests, and of its questions."""
        unanswered = self._initialize_id if self._in_flight.get(self._initialize_id) == "initialize" else None
        for identity in list(self._in_flight):
            if identity != unanswered:
                del self._in_flight[identity]
                yield failure(identity, "actor_crashed", LOST, {"actor": "transport", "executed": "unknown"})
        for identity in self._questions:
            params = b'{"requestId":%b,"reason":"the stack was restarted"}' % identity
            yield b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":%b}\n' % params
        self._questions.clear()
        self._swallow = None

    def resume(self) -> Iterator[bytes]:
        """The connection is new: the lines that re-establish the session. Further ones wait while `resuming`."""
        if self._initialize is None:
            return
        yield self._initialize
        if self._initialize_id not in self._in_flight:
            self._swallow = self._initialize_id

    def resumed(self) -> bytes | None:
        """The repeated `initialize` was answered: what the client had said after its answer."""
        return self._initialized

    def drop(self, line: bytes, code: str, message: str) -> bytes | None:
        """A line of the client that cannot be sent: what to answer, if it asked for something."""
        head = _head(line)
        if head is None or head.method is None or not head.id:
            return None
        return failure(bytes(head.id), code, message)


def failure(identity: bytes, code: str, message: str, detail: dict[str, Any] | None = None) -> bytes:
    """Return a JSON-RPC error response line with a typed code of ours in its `data`."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": {"code": code, **(detail or {})}}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (identity, msgspec.json.encode(error))


def _head(line: bytes) -> _Head | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

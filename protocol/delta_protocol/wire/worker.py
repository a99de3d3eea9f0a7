"""Frames between the sandbox actor and a jailed worker, without any I/O. Every byte from a worker is hostile.

A frame is a big-endian u32 length, one byte of kind, and JSON text (spec/sandbox 4). The length counts kind and text.

Values cross as JSON text in which some strings are tagged by a leading U+0001 (never raw in user strings: those that
begin with it are escaped by the `s` tag, so no data can collide):

    U+0001 i 123            the exact integer 123, beyond +-(2**53 - 1)
    U+0001 s text           a string that itself begins with U+0001
    U+0001 r [7,["id"]]     a part of the result of planned write 7
    U+0001 t ["a",[7,[]]]   text with such parts in it
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Literal

import msgspec

from delta_protocol.changes.model import ResultRef, Text
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid, LimitExceeded, ProtocolViolation

SAFE_INTEGER = 2**53 - 1
TAG = "\u0001"
MAX_FROM_WORKER = 8 << 20
MAX_TO_WORKER = 64 << 20
_HEADER = 5


class Kind(IntEnum):
    """What a frame carries. READY, CALLS, ENDING, DONE come from the worker."""

    READY = 1
    RUN = 2
    CALLS = 3
    SETTLE = 4
    ENDING = 5
    """The program ended; reads that it did not await are still out."""
    FINISH = 6
    """Wait no longer for them."""
    DONE = 7


FROM_WORKER = frozenset({Kind.READY, Kind.CALLS, Kind.ENDING, Kind.DONE})


def frame(kind: Kind, payload: bytes = b"") -> bytes:
    """Return one frame's bytes."""
    return (len(payload) + 1).to_bytes(4, "big") + bytes((kind,)) + payload


class FrameReader:
    """Cuts a byte stream into frames.

    `allowed` are the kinds this end may receive; anything else, a zero length and a length over `limit` raise
    `ProtocolViolation`.
    """

    def __init__(self, allowed: frozenset[Kind] = FROM_WORKER, limit: int = MAX_FROM_WORKER) -> None:
        self._allowed = allowed
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Kind, bytes]]:
        """Take received bytes and return the frames they completed."""
        buffer = self._buffer
        buffer += data
        frames: list[tuple[Kind, bytes]] = []
        start = 0
        while len(buffer) - start >= _HEADER:
            length = int.from_bytes(buffer[start : start + 4], "big")
            if not 1 <= length <= self._limit:
                raise ProtocolViolation(f"a frame of {length} bytes; the limit is {self._limit}")
            if len(buffer) - start < 4 + length:
                break
            frames.append((self._kind(buffer[start + 4]), bytes(buffer[start + _HEADER : start + 4 + length])))
            start += 4 + length
        del buffer[:start]
        return frames

    def _kind(self, byte: int) -> Kind:
        try:
            kind = Kind(byte)
        except ValueError:
            kind = None
        if kind is None or kind not in self._allowed:
            raise ProtocolViolation(f"an unexpected frame of kind {byte}")
        return kind


class ReadBinding(msgspec.Struct, frozen=True):
    """How the program's side calls one operation of a collection; see `catalogue.model.Binding`."""

    tool: str
    key: str | None = None
    fields: dict[str, str] = {}
    result: tuple[str | int, ...] = ()
    many: bool = False
    content: str | None = None
    cursor: str | None = None
    first: str | None = None
    """The parameter that takes a lone string (`search("late")`)."""


class CollectionView(msgspec.Struct, frozen=True):
    """A collection as the program's side needs it."""

    name: str
    noun: str
    key: str
    fields: tuple[str, ...] = ()
    get: ReadBinding | None = None
    list: ReadBinding | None = None
    search: ReadBinding | None = None
    create: ReadBinding | None = None
    update: ReadBinding | None = None
    delete: ReadBinding | None = None


class ToolView(msgspec.Struct, frozen=True):
    """A tool as the program's side needs it. `effect`: read | write | ask (by its arguments) | off."""

    name: str
    alias: str
    effect: str
    fault: str = ""
    required: tuple[str, ...] = ()
    """Parameters that must be given, for the message when none is."""


class NamespaceView(msgspec.Struct, frozen=True):
    """One connector: `alias` is its JavaScript identifier; `detail` says why it has no tools, where it has none."""

    name: str
    alias: str
    tools: tuple[ToolView, ...] = ()
    collections: tuple[CollectionView, ...] = ()
    detail: str = ""


class Run(msgspec.Struct, frozen=True):
    """The one program of a worker. `cpu` in seconds, sizes in bytes, `frozen_time` in ms since the epoch."""

    source: str
    namespaces: tuple[NamespaceView, ...]
    frozen_time: int
    seed: int
    fuel: int
    cpu: float
    memory: int
    host_calls: int
    argument: int
    result: int
    console: int
    planned_calls: int


class HostCall(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A read (a write, maybe, where the effect hangs on the arguments) that the program waits for, or a sleep (ms)."""

    id: int
    kind: Literal["read", "sleep"]
    connector: str
    tool: str
    fresh: bool
    arguments: msgspec.Raw
    ms: float


class MutationRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One mutation as the worker tells it."""

    op: Literal["set", "delete", "append", "splice", "replace"]
    path: tuple[str | int, ...]
    value: msgspec.Raw
    start: int
    remove: int
    line: int


class Source(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where an entity's value came from: host call, and path in its decoded result."""

    call: int
    path: tuple[str | int, ...]


class EntityRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An entity that the program changed. `final` is its value at the end, as the worker says."""

    connector: str
    collection: str
    key: msgspec.Raw
    sources: tuple[Source, ...]
    final: msgspec.Raw
    mutations: tuple[MutationRecord, ...]
    fields: tuple[str, ...]
    seq: int
    line: int


class WriteRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A planned write. `initial` and `final`: a created entity as given and as it stood at the end. `key`, `sources`:
    the entity that a delete takes away, and where it was read, if it was."""

    id: int
    connector: str
    tool: str
    arguments: msgspec.Raw
    seq: int
    line: int
    column: int
    collection: str
    operation: Literal["call", "create", "delete"]
    key: msgspec.Raw
    sources: tuple[Source, ...]
    initial: msgspec.Raw
    final: msgspec.Raw
    mutations: tuple[MutationRecord, ...]


class Finished(msgspec.Struct, frozen=True, tag="ok", forbid_unknown_fields=True):
    """The program returned."""

    returned: msgspec.Raw
    entities: tuple[EntityRecord, ...]
    writes: tuple[WriteRecord, ...]
    console: tuple[str, ...]
    notes: tuple[str, ...]


class Failed(msgspec.Struct, frozen=True, tag="error", forbid_unknown_fields=True):
    """The program failed; see `wire.sandbox.ProgramError`."""

    kind: Literal["syntax", "runtime", "host", "limit", "deadlock", "not_yet_real"]
    name: str
    message: str
    line: int
    column: int
    limit: str
    console: tuple[str, ...]


_calls = msgspec.json.Decoder(tuple[HostCall, ...])
_done = msgspec.json.Decoder(Finished | Failed)


def decode_calls(payload: bytes) -> tuple[HostCall, ...]:
    """Return the calls of a CALLS frame. Raises `ProtocolViolation`."""
    try:
        return _calls.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ProtocolViolation(f"the worker sent a malformed call: {error}") from None


def decode_done(payload: bytes) -> tuple[int, Finished | Failed]:
    """Return (fuel used, outcome) of a DONE frame: 8 bytes of fuel, then JSON. Raises `ProtocolViolation`."""
    if len(payload) < 8:
        raise ProtocolViolation("the worker sent a malformed result: too short")
    try:
        return int.from_bytes(payload[:8], "big"), _done.decode(payload[8:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ProtocolViolation(f"the worker sent a malformed result: {error}") from None


class Planned(msgspec.Struct, frozen=True):
    """Stands in a decoded tree where a value exists only after an earlier planned call; see `changes.model.Hole`."""

    parts: tuple[ResultRef | Text, ...]


def untag(text: bytes | msgspec.Raw, *, what: str, depth: int = 64) -> Any:  # noqa: ANN401 - any JSON value
    """Return the tree behind tagged text, `Planned` leaves included.

    Raises `ProtocolViolation` on anything the prelude would not have sent, `LimitExceeded` beyond `depth`.
    """
    try:
        tree = exact_json.decode(bytes(text), what=what)
    except Invalid as error:
        raise ProtocolViolation(error.message) from None
    return _untag(tree, what, depth)


def _untag(node: Any, what: str, depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(node, str):
        return _untag_string(node, what) if node.startswith(TAG) else node
    if not depth and (exact_json.is_object(node) or exact_json.is_array(node)):
        raise LimitExceeded(f"{what} is nested too deeply", limit="depth")
    if exact_json.is_object(node):
        return {key: _untag(value, what, depth - 1) for key, value in node.items()}
    if exact_json.is_array(node):
        return [_untag(value, what, depth - 1) for value in node]
    return node


def _untag_string(node: str, what: str) -> Any:  # noqa: ANN401 - any JSON value
    tag, rest = node[1:2], node[2:]
    try:
        if tag == "s":
            return rest
        if tag == "i":
            return int(rest)
        if tag == "r":
            return Planned((_reference(msgspec.json.decode(rest)),))
        if tag == "t":
            parts = msgspec.json.decode(rest, type=list[Any])
            return Planned(tuple(Text(part) if isinstance(part, str) else _reference(part) for part in parts))
    except (ValueError, TypeError, msgspec.MsgspecError):
        pass
    raise ProtocolViolation(f"{what} has a malformed tagged string")


def _reference(part: Any) -> ResultRef:  # noqa: ANN401 - any JSON value
    write, path = msgspec.convert(part, tuple[int, tuple[str | int, ...]])
    return ResultRef(write, path)


def tag(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return the tagged text of a decoded JSON value for the worker."""
    return exact_json.encode(_tag(value))


def _tag(node: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(node, str):
        return f"{TAG}s{node}" if node.startswith(TAG) else node
    if isinstance(node, int) and not -SAFE_INTEGER <= node <= SAFE_INTEGER:
        return f"{TAG}i{node}"
    if exact_json.is_object(node):
        return {key: _tag(value) for key, value in node.items()}
    if exact_json.is_array(node):
        return [_tag(value) for value in node]
    return node

"""Lists in pages, by opaque cursors (spec 1.11).

A cursor names its list, a place, and the item before that place. Where items were added or removed in front of it, the
item is searched; where the item itself is gone, the cursor is invalid and the client starts over.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

import msgspec

from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError

_MAX_CURSOR = 512


class _Place(msgspec.Struct, array_like=True):
    method: str
    index: int
    last: bytes


def page(method: str, items: Sequence[Json], cursor: str | None, size: int) -> tuple[Sequence[Json], str | None]:
    """Return the page at `cursor` (None: the first) and the next page's cursor, None at the end.

    Raises `RpcError` -32602 for a cursor that this list did not give out.
    """
    if cursor is None and len(items) <= size:
        return items, None
    start = 0 if cursor is None else _start(method, items, cursor)
    end = start + size
    if end >= len(items):
        return items[start:], None
    place = msgspec.msgpack.encode(_Place(method, end, _mark(items[end - 1])))
    return items[start:end], base64.urlsafe_b64encode(place).decode()


def _start(method: str, items: Sequence[Json], cursor: str) -> int:
    try:
        if len(cursor) > _MAX_CURSOR:
            raise ValueError(cursor)
        place = msgspec.msgpack.decode(base64.b64decode(cursor, altchars=b"-_", validate=True), type=_Place)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise RpcError(INVALID_PARAMS, f"{method}: unknown cursor") from None
    if place.method == method:
        if 0 < place.index <= len(items) and _mark(items[place.index - 1]) == place.last:
            return place.index
        for index, item in enumerate(items, 1):
            if _mark(item) == place.last:
                return index
    raise RpcError(INVALID_PARAMS, f"{method}: unknown cursor; the list changed, start again without one")


def _mark(item: Json) -> bytes:
    return hashlib.sha256(item).digest()[:12]

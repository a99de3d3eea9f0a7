"""Messages to the results actor, which keeps what did not fit into an answer."""

from __future__ import annotations

import msgspec

from delta_protocol.changes.model import Path
from delta_protocol.wire.message import Json, Request


class StoredResult(msgspec.Struct, frozen=True, array_like=True):
    """`id` is `r_` and 12 base32 characters."""

    id: str


class StoreResult(Request[StoredResult], frozen=True):
    """Keep a value for the asking principal."""

    value: Json


class LoadResult(Request[Json], frozen=True):
    """A part of a stored value: `path`, then `[start:end]` if given: characters of a string, items of an array, keys of
    an object.

    `NotFound`: no such id for this principal, expired, or no such part (the message lists what is there).
    """

    id: str
    path: Path = ()
    start: int | None = None
    end: int | None = None


Inbox = StoreResult | LoadResult

"""How much may be in progress at once, of requests and of streams."""

from __future__ import annotations

from typing import Self

from delta_protocol.jsonrpc import Id
from delta_protocol.mcp.errors import OVERLOADED
from delta_protocol.mcp.http_ladder import HttpRefusal

RETRY = (b"retry-after", b"1")


class Room:
    """How many may be open at once: `with room.take():`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    def take(self, identity: Id | None = None) -> Self:
        """Count one in for the block. Refuses with 503 and Retry-After where there is no room."""
        if self.taken >= self._limit:
            reason = f"busy: more than {self._limit} requests in progress; try again later"
            raise HttpRefusal(503, OVERLOADED, reason, id=identity, headers=[RETRY])
        self.taken += 1
        return self

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, *_: object) -> None:
        """Count one out."""
        self.taken -= 1

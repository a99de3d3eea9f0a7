"""How much may be in progress at once, of requests and of streams."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from delta_protocol.jsonrpc import Id
from delta_protocol.mcp.errors import OVERLOADED
from delta_protocol.mcp.http_ladder import HttpRefusal

RETRY = (b"retry-after", b"1")


class Room:
    """How many may be open at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    @contextmanager
    def take(self, identity: Id | None = None) -> Generator[None, None, None]:
        """Count one in for the block. Refuses with 503 and Retry-After where there is no room."""
        if self.taken >= self._limit:
            reason = f"busy: more than {self._limit} requests in progress; try again later"
            raise HttpRefusal(503, OVERLOADED, reason, id=identity, headers=[RETRY])
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

"""What one HTTP request's application hears of its connection, without a task or a queue between the two.

hypercorn gives each application a memory channel: six turns of the loop for a small request, and a task of the
application's own that waits for the client to leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

_BOUND = 10
"""Parts of a body that may wait to be read; hypercorn's own bound."""
_LEFT = "http.disconnect"

EXTENSION = "delta.connection"
"""Under which name of the ASGI scope's extensions the inbox is found."""


class Timer(Protocol):
    """What runs beside a request of the connection."""

    def accompany(self, beside: Callable[[], Awaitable[None]], patience: float) -> None:
        """Run `beside` if the request is still in progress after `patience` seconds."""
        ...

    def dismiss(self) -> None:
        """Run nothing any more."""
        ...


class Inbox:
    """The events of one request. `receive` is ASGI's."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._events: deque[dict[str, Any]] = deque()
        self._changed: trio.Event | None = None
        self._left: Callable[[], None] | None = None
        self._gone = False
        self._closed = False

    @property
    def whole(self) -> bool:
        """Whether the rest of the body is here."""
        return bool(self._events) and not self._events[-1].get("more_body", False)

    async def put(self, event: dict[str, Any]) -> None:
        """Take an event of the connection; waits while the application reads too slowly."""
        if event["type"] == _LEFT:
            self._gone = True
            self._wake()
            if self._left is not None:
                self._left()
            return
        while len(self._events) >= _BOUND and not self._closed:
            await self._change()
        if not self._closed:
            self._events.append(event)
            self._wake()

    async def receive(self) -> dict[str, Any]:
        """Return the next event; after the client left, always that."""
        while not self._events:
            if self._gone:
                return {"type": _LEFT}
            await self._change()
        event = self._events.popleft()
        self._wake()
        return event

    def close(self) -> None:
        """The application has ended and reads nothing any more."""
        self._closed = True
        self._wake()

    def accompany(
        self, beside: Callable[[], Awaitable[None]], patience: float, left: Callable[[], None] | None
    ) -> None:
        """Run `beside` once the request took `patience` seconds; call `left` when the client is gone, or is already."""
        self._left = left
        self._timer.accompany(beside, patience)
        if self._gone and left is not None:
            left()

    def dismiss(self) -> None:
        """Undo `accompany`."""
        self._left = None
        self._timer.dismiss()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

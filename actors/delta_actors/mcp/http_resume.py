"""Takes up the stream of a legacy request where it ended (spec 3.7: `Last-Event-ID`, `retry`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import httpx
import trio

from delta_protocol.mcp import versions
from delta_protocol.mcp.sse import Event

_DELAY = 1.0
_SHORTEST_DELAY = 0.05
_LONGEST_DELAY = 60.0
_FRUITLESS = 5
"""Streams in a row that bring nothing new until the request is given up."""


@dataclass(slots=True)
class Place:
    """How far a stream was read. `delay`: seconds after which the server wants to be asked again."""

    last_id: str | None = None
    delay: float = _DELAY

    def take(self, event: Event) -> None:
        """Note what an event says about it."""
        if event.id is not None:
            self.last_id = event.id
        if event.retry is not None:
            self.delay = max(_SHORTEST_DELAY, min(event.retry / 1000, _LONGEST_DELAY))


async def resume(
    http: httpx.AsyncClient,
    url: str,
    headers: Mapping[str, str],
    place: Place,
    read: Callable[[httpx.Response], Awaitable[bool]],
) -> str:
    """Ask for the rest, as often as it takes, until `read` returns that it has the response; then return nothing.

    Returns why there is none where the server does not know the stream any more, or brings nothing new. The waiting is
    bounded by whoever waits for the request.
    """
    fruitless = 0
    while fruitless < _FRUITLESS and place.last_id is not None:
        before = place.last_id
        await trio.sleep(place.delay)
        asked = {**headers, "accept": "text/event-stream", versions.HEADER_LAST_EVENT: before}
        try:
            async with http.stream("GET", url, headers=asked) as response:
                if 400 <= response.status_code < 500:
                    return f"the response stream ended, and HTTP {response.status_code} refused the rest of it"
                if response.status_code == 200 and await read(response):
                    return ""
        except httpx.HTTPError:
            fruitless += 1
            continue
        fruitless = 0 if place.last_id != before else fruitless + 1
    return "the response stream ended without a response"

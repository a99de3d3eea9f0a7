"""How often one client may ask: a sliding window over the moments of its requests (CS-11-03, framework 12.4).

Both the number of clients and the number of moments are bounded, so that made-up addresses cost no more than real ones:
who asked longest ago is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict, deque

MOST_CLIENTS = 10_000
MOST_MOMENTS = 500_000


class RequestRates:
    """Lets `limit` requests through in any `window` seconds of one client. `limit` 0 lets everything through.

    All times are seconds of one clock that the caller reads.
    """

    def __init__(self, limit: int, window: float) -> None:
        self._limit = limit
        self._window = window
        self._clients: OrderedDict[str, deque[float]] = OrderedDict()
        self._moments = 0

    def __len__(self) -> int:
        """How many clients are remembered."""
        return len(self._clients)

    def wait(self, client: str, now: float) -> float:
        """Return for how many seconds `client` must wait, 0 where it may ask; counts nothing."""
        moments = self._clients.get(client)
        if not moments:
            return 0.0
        self._forget_old(moments, now)
        # Rounding must not make the wait longer than the window.
        return min(self._window, moments[0] + self._window - now) if len(moments) >= self._limit else 0.0

    def count(self, client: str, now: float) -> None:
        """Remember a request of `client`."""
        if self._limit <= 0:
            return
        moments = self._clients.setdefault(client, deque())
        self._clients.move_to_end(client)
        if len(moments) >= self._limit:
            moments.popleft()
            self._moments -= 1
        moments.append(now)
        self._moments += 1
        while len(self._clients) > MOST_CLIENTS or (self._moments > MOST_MOMENTS and len(self._clients) > 1):
            self._moments -= len(self._clients.popitem(last=False)[1])

    def take(self, client: str, now: float) -> float:
        """Count a request that `client` may make and return 0; else count nothing and return how long it must wait."""
        wait = self.wait(client, now)
        if not wait:
            self.count(client, now)
        return wait

    def _forget_old(self, moments: deque[float], now: float) -> None:
        while moments and moments[0] <= now - self._window:
            moments.popleft()
            self._moments -= 1

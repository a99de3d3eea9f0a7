"""The keys of one issuer, fetched when needed and kept: rotation, an unreachable issuer, and tokens made to cause work.

States of what is kept, by age: up to `fresh` it is used as it is; up to `stale` it is used where the issuer cannot be
asked; beyond that no token can be verified. A signature that no known key made leads to one more look at the issuer's
keys, at most every `refetch` seconds whoever asks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio

from delta_actors.mcp.resource_server_fetch import Fetcher
from delta_protocol.mcp.access_tokens import InvalidToken, Jwt, VerificationUnavailable
from delta_protocol.mcp.jwt_keys import BadKeySet, KeySet, check_signature

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """Seconds: see the module. `retry`: between attempts while the issuer cannot be reached."""

    fresh: float = 600.0
    stale: float = 3600.0
    refetch: float = 30.0
    retry: float = 2.0


class IssuerKeys:
    """The keys at `url`. Whoever needs them first fetches them, within the own deadline; the others wait or use what is
    there."""

    def __init__(self, url: str, fetcher: Fetcher, times: KeyTimes) -> None:
        self._url = url
        self._fetcher = fetcher
        self._times = times
        self._lock = trio.Lock()
        self._keys = KeySet(())
        self._fetched = float("-inf")
        self._next = float("-inf")
        self._fault = ""

    async def check(self, token: Jwt, algorithm: str) -> None:
        """Return if a key of the issuer signed the token. Raises `InvalidToken`, `VerificationUnavailable`."""
        keys = await self._current()
        try:
            check_signature(token, algorithm, keys.may_sign(token, algorithm))
        except InvalidToken:
            await self._refresh(keys)
            if self._keys is keys:
                raise
            check_signature(token, algorithm, self._keys.may_sign(token, algorithm))

    @property
    def _age(self) -> float:
        return trio.current_time() - self._fetched

    async def _current(self) -> KeySet:
        if self._age > self._times.fresh and not (self._lock.locked() and self._age <= self._times.stale):
            await self._refresh(self._keys)
        else:
            await trio.lowlevel.checkpoint()
        if self._age > self._times.stale:
            raise VerificationUnavailable(self._fault or "the keys of the issuer are not known", retry_after=1)
        return self._keys

    async def _refresh(self, seen: KeySet) -> None:
        """Fetch the keys, unless they are others than `seen` by now or were asked for a moment ago."""
        async with self._lock:
            if self._keys is not seen or trio.current_time() < self._next:
                return
            pause = self._times.retry
            try:
                self._keys = KeySet.read(await self._fetcher.get(self._url))
                self._fetched = trio.current_time()
                pause = self._times.refetch
            except (VerificationUnavailable, BadKeySet) as error:
                self._fault = str(error)
                logger.warning("the keys at %s could not be fetched: %s", self._url, error)
            finally:
                # Counts also where the request that fetches was cancelled: its client may come again at once.
                self._next = trio.current_time() + pause

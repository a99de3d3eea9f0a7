"""Asking the authorisation server about a token (RFC 7662), with a short, bounded memory of its answers."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from delta_actors.mcp.resource_server_fetch import Fetcher
from delta_protocol.mcp.access_tokens import VerificationUnavailable, read_introspection

_KEPT = 1024
_AT_ONCE = 16
_MOST_WAITING = 64


@dataclass(frozen=True, slots=True)
class Introspection:
    """Where to ask, and as whom. `cache`: seconds for which an answer counts, whatever becomes of the token."""

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    cache: float = 30.0


class Introspector:
    """Asks one endpoint, some tokens at once; the same token once while its answer counts."""

    def __init__(self, settings: Introspection, fetcher: Fetcher) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._room = trio.CapacityLimiter(_AT_ONCE)
        self._answers: OrderedDict[bytes, tuple[Mapping[str, Any], float]] = OrderedDict()

    async def ask(self, token: str) -> tuple[Mapping[str, Any], float]:
        """Return the answer's members, and for how many seconds they count. Raises `VerificationUnavailable`."""
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        if (known := self._known(key)) is not None:
            await trio.lowlevel.checkpoint()
            return known
        if self._room.statistics().tasks_waiting >= _MOST_WAITING:
            raise VerificationUnavailable("too many tokens wait to be introspected", retry_after=1)
        async with self._room:
            if (known := self._known(key)) is not None:
                return known
            form = {"token": token, "token_type_hint": "access_token"}
            settings = self._settings
            text = await self._fetcher.post_form(settings.url, form, settings.client_id, settings.client_secret)
            answer = read_introspection(text)
            self._answers[key] = (answer, trio.current_time() + settings.cache)
            self._answers.move_to_end(key)
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
            return answer, settings.cache

    def _known(self, key: bytes) -> tuple[Mapping[str, Any], float] | None:
        answer, until = self._answers.get(key, ({}, -math.inf))
        left = until - trio.current_time()
        return (answer, left) if left > 0 else None

"""Who a client over HTTP is: nobody in particular on loopback, or whom its bearer token speaks for.

The auth actor is asked only where a token was presented, and its answer is kept for at most a minute (so a revoked
token is good for at most that long), for a bounded number of tokens.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict

import trio

from delta_actors.mcp.access import LOOPBACK, Access
from delta_actors.runtime.actor import Ref
from delta_protocol.config import AuthConfig
from delta_protocol.errors import ActorUnavailable, Refused
from delta_protocol.mcp.bearer import ProtectedResource, describe
from delta_protocol.wire.auth import Verified, VerifyToken
from delta_protocol.wire.message import Principal

KEPT = 256
"""Verified tokens that are remembered."""

_REALM = "delta"
_LONGEST_TOKEN = 8192
_PATIENCE = 10.0


def access_of(config: AuthConfig, auth: Ref) -> Access:
    """Return who may come in by `[auth]`, and what the others are told."""
    doorkeeper = Doorkeeper(auth, required=config.asks)
    resource = ProtectedResource(_REALM, scopes=config.scopes, implied=config.implied_scopes)
    if config.chosen == "oauth" and config.public_url and config.issuer:
        resource = describe(
            config.public_url,
            [config.issuer],
            realm=_REALM,
            scopes=config.scopes,
            implied=config.implied_scopes,
            name="Delta",
        )
    return Access(doorkeeper.admit, resource, only_loopback=not config.asks)


class Doorkeeper:
    """Admits clients. `required`: nobody comes in without a token, not even from this machine."""

    def __init__(self, auth: Ref, *, required: bool) -> None:
        self._auth = auth
        self._required = required
        self._verified: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    async def admit(self, token: str | None, peer: str | None) -> Principal:  # noqa: ARG002 - the library's signature
        """Return on whose behalf the request is. Raises `Refused`, with `detail["error"]` as in RFC 6750 3.1."""
        if token is None:
            if self._required:
                raise Refused("a bearer token is needed here")
            await trio.lowlevel.checkpoint()
            return LOOPBACK
        if len(token) > _LONGEST_TOKEN:
            raise Refused("no token is that long", error="invalid_token")
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        return self._remembered(key) or await self._verify(key, token)

    def _remembered(self, key: bytes) -> Principal | None:
        principal, until = self._verified.get(key, (None, 0.0))
        if principal is None or trio.current_time() >= until:
            self._verified.pop(key, None)
            return None
        self._verified.move_to_end(key)
        return principal

    async def _verify(self, key: bytes, token: str) -> Principal:
        try:
            with trio.fail_after(_PATIENCE):
                verified = await self._auth.ask(VerifyToken(token), nowait=True)
        except trio.TooSlowError:
            raise ActorUnavailable("tokens cannot be verified now; try again") from None
        self._verified[key] = (verified.principal, trio.current_time() + _lifetime(verified))
        while len(self._verified) > KEPT:
            self._verified.popitem(last=False)
        return verified.principal


def _lifetime(verified: Verified) -> float:
    if verified.expires is None:
        return verified.max_age
    return min(verified.max_age, verified.expires - time.time())

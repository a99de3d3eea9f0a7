"""The OAuth 2.1 resource server: which tokens are good here, and whom they speak for (spec 1.16, acceptance 67).

A token that is a JWT of a trusted issuer is verified with the issuer's keys; where the issuer answers introspection,
its answer decides. An opaque token can only be introspected. Audience, issuer and expiry are checked on every way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from delta_actors.mcp.resource_server_fetch import Fetcher
from delta_actors.mcp.resource_server_introspection import Introspection, Introspector
from delta_actors.mcp.resource_server_keys import IssuerKeys, KeyTimes
from delta_protocol.errors import DeltaError
from delta_protocol.mcp.access_tokens import (
    ALGORITHMS,
    LONGEST,
    Identity,
    InvalidToken,
    Jwt,
    TokenRules,
    check_claims,
    check_introspection,
    parse_jwt,
    principal_of,
)
from delta_protocol.mcp.bearer import REALM, describe
from delta_protocol.mcp.oauth.errors import MetadataRefused
from delta_protocol.mcp.oauth.urls import check_url
from delta_protocol.wire.message import Principal

logger = logging.getLogger(__name__)

VerifySignature = Callable[[str], Awaitable[bool]]
"""Takes the token; whether its signature is good. An exception means that it is not."""

_REMEMBERED = 60.0
"""Seconds for which a token that only its signature speaks for may be remembered as good."""


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """Whose tokens are taken, and how they are verified: by the keys at `jwks_url`, a function, introspection.

    With introspection beside one of the others, the signature is checked first and the answer decides.
    """

    issuer: str
    jwks_url: str = ""
    introspection: Introspection | None = None
    verify_signature: VerifySignature | None = None


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """A protected resource. `resource` is its public URL, as clients use it; `audience` what tokens must be for, the
    same unless the issuer has another name for it. Seconds.

    `scopes` are needed for everything, `scopes_supported` shown (the same unless given), `implied_scopes` says which
    scopes a scope includes. `leeway`: how far clocks may differ; `timeout`: for a request to an issuer.
    """

    resource: str
    issuers: Sequence[TrustedIssuer]
    audience: str = ""
    scopes: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    implied_scopes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = 30.0
    require_expiry: bool = True
    realm: str = REALM
    name: str = ""
    documentation: str = ""
    timeout: float = 5.0
    keys: KeyTimes = field(default_factory=KeyTimes)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A good token. `max_age`: seconds for which that may be remembered, at most until `identity.expires`."""

    identity: Identity
    principal: Principal
    max_age: float


class TokenVerifier:
    """Verifies tokens by `settings`; its `resource` is what clients are told.

    Raises `ValueError` for settings that leave nothing to verify a token with, for URLs that are neither https nor of
    this machine, and where it would be open which issuer to ask about an opaque token.
    """

    def __init__(self, settings: ResourceSettings) -> None:
        names = [each.issuer for each in settings.issuers]
        self.resource = describe(
            settings.resource,
            names,
            realm=settings.realm,
            scopes=settings.scopes,
            scopes_supported=settings.scopes_supported,
            implied=settings.implied_scopes,
            name=settings.name,
            documentation=settings.documentation,
        )
        self._rules = TokenRules(
            settings.audience or settings.resource,
            tuple(names),
            settings.algorithms,
            settings.leeway,
            settings.require_expiry,
        )
        if len(set(names)) != len(names):
            raise ValueError("an issuer is named twice")
        self._fetcher = Fetcher(settings.timeout)
        self._issuers = {each.issuer: _Issuer(each, self._fetcher, settings.keys) for each in settings.issuers}
        asked = [each for each in self._issuers.values() if each.introspector is not None]
        if len(asked) > 1:
            raise ValueError("only one issuer can be asked about opaque tokens: two have introspection")
        self._asked = asked[0] if asked else None
        self._verified = self._refused = 0

    def statistics(self) -> dict[str, int]:
        """Return how many tokens were good and not, and how many requests went to issuers."""
        return {"verified": self._verified, "refused": self._refused, "requests": self._fetcher.requests}

    async def verify(self, token: str) -> VerifiedToken:
        """Return whom the token speaks for.

        Raises `InvalidToken` with its reason, and `VerificationUnavailable` where that cannot be found out now.
        """
        try:
            identity, max_age = await self._verify(token)
        except InvalidToken:
            self._refused += 1
            raise
        self._verified += 1
        return VerifiedToken(identity, principal_of(identity, token), max_age)

    async def _verify(self, token: str) -> tuple[Identity, float]:
        if len(token) > LONGEST:
            raise InvalidToken("invalid_signature", "no token is that long")
        parsed = parse_jwt(token)
        if parsed is None or (not parsed.issuer and self._asked is not None):
            if self._asked is None:
                raise InvalidToken("invalid_signature", "it is no signed token")
            return await self._asked.introspect(token, self._rules, None)
        issuer = self._issuers.get(parsed.issuer)
        if issuer is None:
            raise InvalidToken("invalid_issuer", "it is not from an issuer that is trusted here")
        return await issuer.verify(parsed, self._rules)


class _Issuer:
    """One issuer's ways to verify."""

    def __init__(self, trusted: TrustedIssuer, fetcher: Fetcher, times: KeyTimes) -> None:
        if not trusted.jwks_url and trusted.introspection is None and trusted.verify_signature is None:
            raise ValueError(f"nothing can verify the tokens of {trusted.issuer}: give it jwks_url or introspection")
        if trusted.jwks_url and trusted.verify_signature is not None:
            raise ValueError(f"{trusted.issuer}: give jwks_url or verify_signature, not both")
        asked = trusted.introspection
        try:
            if trusted.jwks_url:
                check_url(trusted.jwks_url, "jwks_url")
            if asked is not None:
                check_url(asked.url, "the introspection URL")
        except MetadataRefused as error:
            raise ValueError(error.message) from None
        self.introspector = None if asked is None else Introspector(asked, fetcher)
        self._issuer = trusted.issuer
        self._keys = IssuerKeys(trusted.jwks_url, fetcher, times) if trusted.jwks_url else None
        self._hook = trusted.verify_signature

    async def verify(self, token: Jwt, rules: TokenRules) -> tuple[Identity, float]:
        """Return whom a JWT speaks for, and how long that may be remembered."""
        verified = None
        if self._keys is not None or self._hook is not None:
            algorithm = token.algorithm(rules.algorithms)
            if self.introspector is None:
                # Before the signature: what would be refused anyhow never makes anybody fetch keys.
                check_claims(token.claims, rules, time.time())
            await self._check_signature(token, algorithm)
            verified = token.claims
        if self.introspector is not None:
            return await self.introspect(token.text, rules, verified)
        return check_claims(token.claims, rules, time.time()), _REMEMBERED

    async def introspect(
        self, token: str, rules: TokenRules, verified: Mapping[str, object] | None
    ) -> tuple[Identity, float]:
        """Return whom the issuer says that the token speaks for, and how long that may be remembered."""
        assert self.introspector is not None
        answer, left = await self.introspector.ask(token)
        return check_introspection(answer, rules, self._issuer, time.time(), verified), left

    async def _check_signature(self, token: Jwt, algorithm: str) -> None:
        if self._keys is not None:
            await self._keys.check(token, algorithm)
            return
        assert self._hook is not None
        try:
            good = await self._hook(token.text)
        except (DeltaError, trio.TooSlowError):
            raise
        except Exception:  # libraries that verify signatures say no in exceptions of their own
            logger.debug("the check of a signature failed", exc_info=True)
            good = False
        if good is not True:
            raise InvalidToken("invalid_signature", "its signature is not good")

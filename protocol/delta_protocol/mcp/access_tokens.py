"""Access tokens as a resource server sees them: their parts, and the checks of what they claim (RFC 9068, RFC 7662).

Nothing here verifies a signature: that is `jwt_keys`. Every reader is total: whatever a client sends ends in a value or
in `InvalidToken`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from delta_protocol.errors import Overloaded, Refused
from delta_protocol.wire.message import Principal

Reason = Literal[
    "expired",
    "not_yet_valid",
    "missing_expiry",
    "invalid_audience",
    "invalid_issuer",
    "invalid_signature",
    "introspection_failed",
]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""All that can be allowed. None has a shared secret, so that a public key can never be taken for one (RFC 8725 3.1)."""

LONGEST = 8192
"""Characters that a token may have."""

_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})
_LONGEST_SUBJECT = 255
_LATEST = 2.0**53


class InvalidToken(Refused):
    """The token is not good. `detail`: `error` as in RFC 6750 3.1, `reason`; the message begins with the reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}", error="invalid_token", reason=reason)
        self.reason: Reason = reason


class InsufficientScope(Refused):
    """The token is good and grants too little. `detail["scopes"]`: all that the operation needs."""

    def __init__(self, scopes: tuple[str, ...], missing: tuple[str, ...]) -> None:
        super().__init__(
            f"insufficient_scope: the token does not grant {' '.join(missing)}",
            error="insufficient_scope",
            reason="insufficient_scope",
            scopes=list(scopes),
        )


class VerificationUnavailable(Overloaded):
    """Nobody can say now whether the token is good: keys or introspection cannot be had."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a verified token speaks for. `expires` in seconds since the epoch, None for a token that need not."""

    issuer: str
    subject: str
    client_id: str
    scopes: tuple[str, ...]
    expires: float | None


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What is asked of every token. `leeway` in seconds, for clocks that differ; `issuers` and `audience` exactly."""

    audience: str
    issuers: tuple[str, ...]
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = 30.0
    require_expiry: bool = True

    def __post_init__(self) -> None:
        """Raise `ValueError` for rules under which nothing, or anything, would pass."""
        if not self.audience or not self.issuers or not all(self.issuers):
            raise ValueError("tokens need an audience and an issuer to be held to")
        unknown = ", ".join(sorted(set(self.algorithms) - set(ALGORITHMS)))
        if unknown or not self.algorithms:
            raise ValueError(f"no such signatures can be allowed: {unknown}; known: {', '.join(ALGORITHMS)}")
        if not (math.isfinite(self.leeway) and 0 <= self.leeway <= 600):
            raise ValueError("the leeway is a number of seconds, at most 600")


@dataclass(frozen=True, slots=True)
class Jwt:
    """A token in the form of a JWT, nothing of it verified. `kid` is empty where the header names no key."""

    text: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    @property
    def issuer(self) -> str:
        """Who it claims to be from."""
        return _text(self.claims.get("iss"))

    @property
    def kid(self) -> str:
        """The key it claims to be signed with."""
        return _text(self.header.get("kid"))

    def algorithm(self, allowed: tuple[str, ...]) -> str:
        """Return the algorithm of its signature.

        Raises `InvalidToken` for one that is not allowed, for a type that is no access token's (RFC 9068 4) and for
        extensions that must be understood (RFC 7515 4.1.11).
        """
        algorithm, kind = self.header.get("alg"), self.header.get("typ")
        if not isinstance(algorithm, str) or algorithm not in allowed:
            raise InvalidToken("invalid_signature", "its algorithm is not allowed here")
        if kind is not None and _text(kind).lower() not in _TYPES:
            raise InvalidToken("invalid_signature", "it is no access token, its type says")
        if "crit" in self.header or self.header.get("b64", True) is not True:
            raise InvalidToken("invalid_signature", "it has extensions that are not known here")
        return algorithm


def parse_jwt(token: str) -> Jwt | None:
    """Return the parts of a token that has the form of a JWT, None for an opaque one."""
    parts = token.split(".")
    if len(token) > LONGEST or len(parts) != 3:
        return None
    header, claims = _read_object(parts[0]), _read_object(parts[1])
    return None if header is None or claims is None else Jwt(token, header, claims)


def check_claims(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Identity:
    """Return who claims speak for. `now` in seconds since the epoch. Raises `InvalidToken`."""
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or issuer not in rules.issuers:
        raise InvalidToken("invalid_issuer", "it is not from an issuer that is trusted here")
    expires = _time(claims.get("exp"))
    if expires is None and (rules.require_expiry or "exp" in claims):
        raise InvalidToken("missing_expiry", "it does not say until when it is good")
    if expires is not None and expires + rules.leeway <= now:
        raise InvalidToken("expired", "it is no longer good; get a new one")
    begins = _time(claims.get("nbf"))
    if "nbf" in claims and (begins is None or begins - rules.leeway > now):
        raise InvalidToken("not_yet_valid", "it is not good yet")
    if rules.audience not in _audiences(claims.get("aud")):
        raise InvalidToken("invalid_audience", "it is not for this server")
    client = _text(claims.get("client_id")) or _text(claims.get("azp"))
    return Identity(issuer, _text(claims.get("sub")), client, _scopes(claims), expires)


def check_introspection(
    answer: Mapping[str, Any], rules: TokenRules, issuer: str, now: float, verified: Mapping[str, Any] | None = None
) -> Identity:
    """Return who an introspection answer of `issuer` speaks for (RFC 7662 2.2). Raises `InvalidToken`.

    What the answer says counts; what it leaves out is taken from `verified`, the claims of a token whose signature was
    verified, or is missing. An active token without an audience is refused like any other.
    """
    if answer.get("active") is not True:
        raise InvalidToken("introspection_failed", "its issuer says that it is not active")
    said = {name: value for name, value in answer.items() if value is not None}
    claims: dict[str, Any] = {"iss": issuer, **(verified or {}), **said}
    if "scope" in said:
        claims.pop("scp", None)
    return check_claims(claims, rules, now)


def read_introspection(text: bytes) -> Mapping[str, Any]:
    """Return the answer's members. Raises `VerificationUnavailable` for what is no JSON object."""
    answer = _decode(text)
    if answer is None:
        raise VerificationUnavailable("the introspection answer cannot be read")
    return answer


def principal_of(identity: Identity, token: str) -> Principal:
    """Return the principal of a verified token: the subject of its issuer, or its client where it has no subject.

    Sessions are bound to the id, so it never means two: an issuer has no fragment, a long subject is hashed, and a
    token that names nobody is its own principal.
    """
    if identity.subject:
        kind, name = "oauth", identity.subject
    elif identity.client_id:
        kind, name = "oauth-client", identity.client_id
    else:
        kind, name = "oauth-token", _digest(token)
    if len(name) > _LONGEST_SUBJECT:
        kind, name = f"{kind}-hash", _digest(name)
    return Principal(
        f"{kind}:{identity.issuer}#{name}",
        "oauth",
        identity.scopes,
        identity.subject,
        identity.client_id,
        identity.issuer,
    )


def _read_object(part: str) -> Mapping[str, Any] | None:
    try:
        data = base64.b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return _decode(data)


def _decode(data: bytes) -> Mapping[str, Any] | None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float | None:
    """Return a NumericDate (RFC 7519 2), None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LATEST < value < _LATEST:
        return None
    return float(value)


def _audiences(value: object) -> tuple[object, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(cast("list[object]", value)) if isinstance(value, list) else ()


def _scopes(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scopes of `scope`, else of `scp`; as text (RFC 9068 2.2.3) or, as some issuers do, as a list."""
    value = claims.get("scope", claims.get("scp"))
    if isinstance(value, str):
        return tuple(dict.fromkeys(value.split()))
    if isinstance(value, list):
        return tuple(dict.fromkeys(each for each in cast("list[object]", value) if isinstance(each, str)))
    return ()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

"""The signed JWT by which a client authenticates (RFC 7523 2.2, 3). Imported only where a key is configured."""

from __future__ import annotations

import jwt

from delta_protocol.mcp.oauth.errors import ConfigurationNeeded

LIFETIME = 300
"""Seconds that an assertion may be used."""
ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")


def client_assertion(client_id: str, issuer: str, key: str, algorithm: str, now: float, identity: str) -> str:
    """Return the assertion for `issuer`, its only audience. `key` is a private key in PEM, `identity` random.

    Raises `ConfigurationNeeded` for a key that is none, or does not fit the algorithm.
    """
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": int(now),
        "exp": int(now) + LIFETIME,
        "jti": identity,
    }
    if algorithm not in ALGORITHMS:
        raise ConfigurationNeeded(f"{algorithm!r} cannot sign: use one of {', '.join(ALGORITHMS)}")
    try:
        return jwt.encode(claims, key, algorithm)
    except (ValueError, TypeError, jwt.PyJWTError):
        raise ConfigurationNeeded(f"`private_key` is no private key for {algorithm} in PEM") from None

"""What is signed with a key: the client's assertions (RFC 7523), proofs of possession (RFC 9449).

Signing loads cryptography, so each function does that when it is first needed.
"""

from __future__ import annotations

import secrets
import time

from delta_actors.mcp.oauth_settings import OAuthSettings
from delta_protocol.mcp.oauth.errors import MetadataRefused
from delta_protocol.mcp.oauth.metadata import AuthorizationServer
from delta_protocol.mcp.oauth.tokens import Client


def assertion_of(client: Client, issuer: str, settings: OAuthSettings) -> str | None:
    """Return a fresh assertion of who `client` is, None where it says that otherwise or has no key.

    Raises `ConfigurationNeeded` for a key that is none.
    """
    if client.method != "private_key_jwt" or settings.private_key is None:
        return None
    from delta_protocol.mcp.oauth.assertion import client_assertion

    identity = secrets.token_urlsafe(16)
    return client_assertion(client.client_id, issuer, settings.private_key, settings.algorithm, time.time(), identity)


def proof_of(key: str, method: str, url: str, *, token: str = "", nonce: str = "") -> str:
    """Return a fresh proof that we hold `key` (RFC 9449 4)."""
    from delta_protocol.mcp.oauth.dpop import proof

    return proof(key, method, url, time.time(), secrets.token_urlsafe(16), token=token, nonce=nonce)


def new_key(server: AuthorizationServer) -> str:
    """Return a new key for `server`'s tokens, in PEM. Raises `MetadataRefused` where it binds none."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    from delta_protocol.mcp.oauth.dpop import ALGORITHM

    if ALGORITHM not in (server.dpop_signing_alg_values_supported or ()):
        raise MetadataRefused(
            f"{server.issuer} does not say that it binds tokens to keys ({ALGORITHM}), as `dpop` asks"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()

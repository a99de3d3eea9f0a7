"""Proofs that whoever sends a token holds the key it is bound to (RFC 9449). Imported only where it is wanted."""

from __future__ import annotations

import base64
import hashlib

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt.algorithms import ECAlgorithm

ALGORITHM = "ES256"


def proof(key: str, method: str, url: str, now: float, identity: str, *, token: str = "", nonce: str = "") -> str:
    """Return a proof for one request (RFC 9449 4.2). `key` is a P-256 private key in PEM, `identity` random.

    `token` is the access token that goes with it, if any; query and fragment of `url` are no part of a proof.
    """
    loaded = load_pem_private_key(key.encode(), None)
    assert isinstance(loaded, EllipticCurvePrivateKey), "made by us"
    claims = {
        "jti": identity,
        "htm": method,
        "htu": url.partition("#")[0].partition("?")[0],
        "iat": int(now),
    }
    if token:
        digest = hashlib.sha256(token.encode("ascii")).digest()
        claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if nonce:
        claims["nonce"] = nonce
    public = ECAlgorithm.to_jwk(loaded.public_key(), as_dict=True)
    return jwt.encode(claims, loaded, ALGORITHM, headers={"typ": "dpop+jwt", "jwk": public})

"""Public keys of an issuer (RFC 7517) and the signatures made with them. Imported only where tokens are verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import jwt
import msgspec
from jwt.api_jws import PyJWS

from delta_protocol.mcp.access_tokens import ALGORITHMS, InvalidToken, Jwt

_MOST_KEYS = 64
_TRIED = 4
"""Keys that are tried for a token that names none."""
_KINDS = {"RS": ("RSA", None), "PS": ("RSA", None), "Ed": ("OKP", None)}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_SIGNATURES = PyJWS(ALGORITHMS)


class BadKeySet(ValueError):
    """The document is no set of keys."""


class KeySet:
    """The keys of one issuer. Shared secrets, encryption keys and unknown kinds are left out."""

    def __init__(self, keys: Iterable[Mapping[str, Any]]) -> None:
        self._keys = tuple(key for key in keys if _verifies(key))[:_MOST_KEYS]
        self._made: dict[tuple[int, str], jwt.PyJWK | None] = {}

    @classmethod
    def read(cls, text: bytes) -> KeySet:
        """Return the keys of a JWKS document. Raises `BadKeySet`."""
        try:
            document = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadKeySet(f"no key set: {error}") from None
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise BadKeySet("no key set: there is no list `keys`")
        items = cast("list[object]", keys)
        return cls(cast("dict[str, Any]", each) for each in items if isinstance(each, dict))

    def may_sign(self, token: Jwt, algorithm: str) -> tuple[jwt.PyJWK, ...]:
        """Return the keys that the token may be signed with: those of its `kid`, some where it names none."""
        fitting = [
            number
            for number, key in enumerate(self._keys)
            if _fits(key, algorithm) and (not token.kid or key.get("kid") == token.kid)
        ]
        made = (self._make(number, algorithm) for number in fitting[:_TRIED])
        return tuple(key for key in made if key is not None)

    def _make(self, number: int, algorithm: str) -> jwt.PyJWK | None:
        if (number, algorithm) not in self._made:
            try:
                made = jwt.PyJWK(dict(self._keys[number]), algorithm)
            except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError):
                made = None
            self._made[number, algorithm] = made
        return self._made[number, algorithm]


def check_signature(token: Jwt, algorithm: str, keys: Iterable[jwt.PyJWK]) -> None:
    """Raise `InvalidToken` unless one of `keys` signed the token with `algorithm`."""
    for key in keys:
        try:
            _SIGNATURES.decode_complete(
                token.text, key, algorithms=[algorithm], options={"enforce_minimum_key_length": True}
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        return
    raise InvalidToken("invalid_signature", "no key of its issuer signed it")


def _verifies(key: Mapping[str, Any]) -> bool:
    """Whether it is a public key for signatures."""
    operations = key.get("key_ops")
    if key.get("kty") not in ("RSA", "EC", "OKP") or key.get("use", "sig") != "sig":
        return False
    return operations is None or (isinstance(operations, list) and "verify" in cast("list[object]", operations))


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    if key.get("alg", algorithm) != algorithm:
        return False
    kind, curve = ("EC", _CURVES[algorithm]) if algorithm in _CURVES else _KINDS[algorithm[:2]]
    return key.get("kty") == kind and (curve is None or key.get("crv") == curve)

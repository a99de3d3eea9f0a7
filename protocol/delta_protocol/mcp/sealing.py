"""Text that a client carries for us and cannot change: session claims and the state of a multi round-trip request.

HMAC-SHA256 over purpose and payload; the payload is readable to the client and must hold no secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac


class Forged(Exception):
    """The text was not sealed by this key for this purpose."""


def seal(key: bytes, purpose: str, payload: bytes) -> str:
    """Return `payload` and its seal as visible ASCII."""
    return f"{_text(payload)}.{_text(_tag(key, purpose, payload))}"


def unseal(key: bytes, purpose: str, sealed: str) -> bytes:
    """Return the payload. Raises `Forged` for anything that `seal` did not give out, and nothing else."""
    body, _, tag = sealed.partition(".")
    try:
        payload, given = _bytes(body), _bytes(tag)
    except (binascii.Error, ValueError):
        raise Forged("not sealed text") from None
    if not hmac.compare_digest(_tag(key, purpose, payload), given):
        raise Forged("the seal does not fit")
    return payload


def _tag(key: bytes, purpose: str, payload: bytes) -> bytes:
    return hmac.new(key, purpose.encode() + b"\0" + payload, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _text(data) != text:
        raise ValueError("not canonical base64")
    return data

"""JSON that keeps integers exact and has one canonical text.

msgspec decodes integers of any size exactly and refuses NaN, Infinity, numbers out of a double's range and trailing
bytes. Nesting beyond `MAX_DEPTH` is refused here. Of members of one object with the same name the last one counts, as
RFC 8259 section 4 allows.

The canonical form follows RFC 8785 in key order (UTF-16 code units), minimal escapes and no white space, and departs
from it in one point: integers are written as they are, however large, where RFC 8785 would round them to a double.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import Any, TypeGuard, cast

import msgspec

from delta_protocol.errors import Invalid

MAX_DEPTH = 256
"""Arrays and objects inside each other."""

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decode(text: bytes | str, *, what: str = "value") -> Any:  # noqa: ANN401 - any JSON value
    """Return the decoded value.

    Raises `Invalid`, naming `what`, on malformed JSON, non-finite numbers or too deep nesting.
    """
    if is_too_deep(text):
        raise Invalid(f"{what} is nested deeper than {MAX_DEPTH}", what=what)
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"{what} is not JSON: {error}", what=what) from None


def is_too_deep(text: bytes | str) -> bool:
    """Whether JSON text is nested deeper than `MAX_DEPTH`. Costs next to nothing for text with few brackets."""
    if isinstance(text, str):
        if text.count("[") + text.count("{") <= MAX_DEPTH:
            return False
        text = text.encode(errors="surrogatepass")
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside.translate(_STEPS, _NO_BRACKETS)
    return max(itertools.accumulate(memoryview(brackets).cast("b")), default=0) > MAX_DEPTH


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    """Whether a decoded value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:  # noqa: ANN401 - any JSON value
    """Whether a decoded value is a JSON array."""
    return isinstance(value, list)


def encode(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return compact JSON text, keys in their given order."""
    return _encode(value)


def canonical(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return the one canonical text of `value`."""
    return _encode(_sorted(value))


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the sha256 (hex) of the canonical text."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _sorted(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if is_object(value):
        return {key: _sorted(value[key]) for key in sorted(value, key=_utf16)}
    if is_array(value) or isinstance(value, tuple):
        return [_sorted(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")

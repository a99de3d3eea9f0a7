"""JSON-RPC messages in CBOR (RFC 8949), limited to what JSON can say.

Refused: items of indefinite length, tags (shared references and the like), maps whose keys are no text or come twice,
byte strings, `undefined`, NaN and infinities, nesting beyond `exact_json.MAX_DEPTH`, trailing bytes, and integers
outside -2**63 to 2**64-1. cbor2 is imported at the first use, so that standard servers do not pay for it.
"""

from __future__ import annotations

import io
import math
from typing import Any, NoReturn, cast

from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid

CONTENT_TYPE = "application/cbor"

MAX_BYTES = 64 * 2**20
"""Bytes of one message."""

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
# Every tag that cbor2 would give a meaning; the hook below gets the others.
_TAGS = (0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799)


def encode(message: bytes) -> bytes:
    """Return the CBOR of a JSON-RPC message in standard JSON. Raises `Invalid` where CBOR cannot say it exactly."""
    import cbor2

    value = exact_json.decode(message, what="message")
    _check(value)
    return cbor2.dumps(value)


def decode(body: bytes) -> bytes:
    """Return the standard JSON of a JSON-RPC message in CBOR. Raises `Invalid` for anything else."""
    import cbor2

    if len(body) > MAX_BYTES:
        raise Invalid(f"message is larger than {MAX_BYTES} bytes")
    decoder = cbor2.CBORDecoder(
        io.BytesIO(body),
        tag_hook=_refuse_tag,
        semantic_decoders=dict.fromkeys(_TAGS, _refuse_tag),
        max_depth=exact_json.MAX_DEPTH,
        allow_indefinite=False,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        value = decoder.decode()
    except (cbor2.CBORDecodeError, ValueError, OverflowError, MemoryError) as error:
        raise Invalid(f"message is not CBOR that JSON can say: {error}") from None
    try:
        decoder.read(1)
    except cbor2.CBORDecodeEOF:
        pass
    else:
        raise Invalid("message has bytes after its end")
    if not exact_json.is_object(value) or value.get("jsonrpc") != "2.0":
        raise Invalid("message is not a JSON-RPC message")
    _check(value)
    return exact_json.encode(value)


def _refuse_tag(*_: object) -> NoReturn:
    raise ValueError("tags have no meaning here")


def _check(value: Any) -> None:  # noqa: ANN401 - whatever the decoder returns
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if exact_json.is_object(item):
            if not all(isinstance(key, str) for key in cast("dict[object, Any]", item)):
                raise Invalid("message has a key that is no text")
            waiting.extend(item.values())
        elif exact_json.is_array(item):
            waiting.extend(item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise Invalid("message has a number that is not finite")
        elif isinstance(item, int):
            if not _SMALLEST <= item <= _LARGEST:
                raise Invalid("message has an integer beyond 64 bits")
        elif item is not None and not isinstance(item, str):
            raise Invalid("message has a value that JSON cannot say")

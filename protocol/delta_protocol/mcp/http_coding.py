"""In which form bodies come and go: media types by `Content-Type` and `Accept`, gzip by the codings' headers.

JSON is always spoken; compact JSON and CBOR where the server was told so (CS-05, CS-08-03). Refusals are plain JSON,
whatever was asked for. RFC 9110 8.3, 8.4, 12.4.2, 12.5; RFC 7694 for how a server says that it takes gzip.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection
from functools import lru_cache

import msgspec

from delta_protocol.codecs import cbor, compact, negotiate
from delta_protocol.codecs.negotiate import Format
from delta_protocol.errors import Invalid
from delta_protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR
from delta_protocol.mcp.http_ladder import Headers, HttpRefusal, body_too_large

WORTH_GZIP = 500
"""Bytes below which gzip saves nothing that matters."""

_LEVEL = 4
_USUAL = 512
"""Characters of `Accept` and `Accept-Encoding` beyond which what they say is not remembered."""
_GZIP_WINDOW = 31
_TAKES_GZIP = (b"accept-encoding", b"gzip")
_DECODE = {Format.COMPACT: compact.decode, Format.CBOR: cbor.decode}
_ENCODE = {Format.COMPACT: compact.encode, Format.CBOR: cbor.encode}


class Content(msgspec.Struct, frozen=True):
    """What a request says of its body. `length` in bytes, None where it is not announced."""

    length: int | None
    format: Format
    gzipped: bool


class Accepts(msgspec.Struct, frozen=True):
    """Which response types the client takes: one whole message (`json`) in `format`, an event stream, gzip."""

    json: bool
    sse: bool
    format: Format = Format.JSON
    gzip: bool = False


def check_content(
    headers: Headers, max_body: int, formats: Collection[Format] = (), *, takes_gzip: bool = False
) -> Content:
    """Return what comes. Refuses with 415, 413, 400; `formats` are taken beside JSON."""
    given = negotiate.of_content_type(headers.get("content-type") or "")
    if given is None or (given is not Format.JSON and given not in formats):
        raise HttpRefusal(415, INVALID_REQUEST, f"Content-Type must be {_named(formats)}")
    coding = (headers.get("content-encoding") or "identity").lower()
    gzipped = takes_gzip and coding in ("gzip", "x-gzip")
    if coding != "identity" and not gzipped:
        reason = "Content-Encoding must be gzip or none" if takes_gzip else "Content-Encoding is not supported"
        said = [_TAKES_GZIP] if takes_gzip else [(b"accept-encoding", b"identity")]
        raise HttpRefusal(415, INVALID_REQUEST, reason, headers=said)
    length = headers.get("content-length")
    if length is None:
        return Content(None, given, gzipped)
    if headers.get("transfer-encoding") is not None:
        # RFC 9112 6.1: a proxy that went by the length would see another request in what follows.
        reason = "Content-Length and Transfer-Encoding exclude each other"
        raise HttpRefusal(400, INVALID_REQUEST, reason, headers=[(b"connection", b"close")])
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise HttpRefusal(400, INVALID_REQUEST, "Content-Length is no number")
    if int(length) > max_body:
        raise body_too_large(max_body)
    return Content(int(length), given, gzipped)


def read_accept(headers: Headers, formats: Collection[Format] = (), asked_in: Format = Format.JSON) -> Accepts:
    """Return what `Accept` and `Accept-Encoding` allow, by their qualities; `formats` are offered beside JSON.

    Without `Accept` everything is allowed, and the answer comes as the request did (`asked_in`). Refuses with 406 where
    nothing offered is allowed.
    """
    types, codings = ",".join(headers.all("accept")), ",".join(headers.all("accept-encoding"))
    # A client says the same each time.
    read = _read_accept if len(types) + len(codings) <= _USUAL else _read_accept.__wrapped__
    accepts = read(types, codings, frozenset((Format.JSON, *formats)), asked_in)
    if not (accepts.json or accepts.sse):
        raise HttpRefusal(406, INVALID_REQUEST, f"Accept must allow {_named(formats)} or text/event-stream")
    return accepts


@lru_cache(maxsize=256)
def _read_accept(types: str, codings: str, formats: frozenset[Format], asked_in: Format) -> Accepts:
    gzipped = negotiate.allows_token(codings, "gzip")
    if not types:
        return Accepts(True, True, asked_in, gzipped)
    chosen = negotiate.of_accept(types, formats)
    return Accepts(chosen is not None, negotiate.allows(types, "text/event-stream"), chosen or Format.JSON, gzipped)


def decode_body(content: Content, body: bytes, max_body: int) -> bytes:
    """Return the JSON text of a body, which unpacked may have `max_body` bytes at most. Refuses with 400, 413."""
    if content.gzipped:
        body = _unzip(body, max_body)
    decode = _DECODE.get(content.format)
    if decode is None:
        return body
    try:
        return decode(body)
    except Invalid as error:
        raise HttpRefusal(400, PARSE_ERROR, f"the body is no {content.format.value}: {error.message}") from None


def encode_body(accepts: Accepts, text: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return a whole answer as the client wants it, with the headers that say how.

    Where CBOR cannot say a number exactly, the answer is JSON.
    """
    chosen, body = accepts.format, text
    if (encode := _ENCODE.get(chosen)) is not None:
        try:
            body = encode(text)
        except Invalid:
            chosen = Format.JSON
    headers = [(b"content-type", negotiate.CONTENT_TYPES[chosen].encode())]
    if accepts.gzip and len(body) >= WORTH_GZIP:
        body = gzip.compress(body, _LEVEL, mtime=0)
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    return body, headers


def encode_request(form: Format, text: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a posted message as a server takes it, with the headers that say so and what answer is wanted."""
    chosen, body = form, text
    if (encode := _ENCODE.get(form)) is not None:
        try:
            body = encode(text)
        except Invalid:
            chosen = Format.JSON
    wanted = dict.fromkeys((negotiate.CONTENT_TYPES[form], negotiate.CONTENT_TYPES[Format.JSON], "text/event-stream"))
    return body, {"content-type": negotiate.CONTENT_TYPES[chosen], "accept": ", ".join(wanted)}


def decode_answer(content_type: str, body: bytes) -> bytes:
    """Return the JSON text of an answer. Raises `Invalid` where it is not in the form that its type says."""
    decode = _DECODE.get(negotiate.of_content_type(content_type) or Format.JSON)
    return body if decode is None else decode(body)


def _named(formats: Collection[Format]) -> str:
    return " or ".join(negotiate.CONTENT_TYPES[each] for each in (Format.JSON, *formats))


def _unzip(body: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise HttpRefusal(400, PARSE_ERROR, f"the body is no gzip: {error}") from None
    if len(text) > limit:
        raise body_too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise HttpRefusal(400, PARSE_ERROR, "the body is no single member of gzip, or cut short")
    return text

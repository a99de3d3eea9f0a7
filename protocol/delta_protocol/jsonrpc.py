"""JSON-RPC 2.0 messages, read from and written to JSON text. Source: spec 1.2 and 3.1; no batches.

`params`, `result` and `error.data` stay JSON text: they are passed on without being decoded, so integers stay exact.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from delta_protocol.codecs import exact_json

Id = int | str
Json = bytes

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_ID_LENGTH = 1024
_ID_WITHIN = 100
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class ErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `error` member. `data` is JSON text, or absent."""

    code: int
    message: str
    data: Raw | UnsetType = UNSET


class Request(msgspec.Struct, frozen=True):
    """Asks for one response with the same id. `params` is the text of a JSON object."""

    id: Id
    method: str
    params: Json = b"{}"


class Notification(msgspec.Struct, frozen=True):
    """Asks for nothing."""

    method: str
    params: Json = b"{}"


class Response(msgspec.Struct, frozen=True):
    """Answers a request: `result` or `error`. `id` is None where the sender could not read the request's id."""

    id: Id | None
    result: Json | None = None
    error: ErrorObject | None = None


Message = Request | Notification | Response


class Malformed(Exception):
    """No message. `code` is `PARSE_ERROR` or `INVALID_REQUEST`; `id` is the request's where it could be read."""

    def __init__(self, code: int, message: str, id: Id | None = None) -> None:  # noqa: A002 - JSON-RPC's word
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id


class _Envelope(msgspec.Struct):
    jsonrpc: str
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: ErrorObject | UnsetType = UNSET


class _IdOnly(msgspec.Struct):
    id: Id


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_id = msgspec.json.Decoder(_IdOnly).decode
_encode = msgspec.json.Encoder().encode


def parse(text: bytes) -> Message:
    """Return the message that `text` is. Raises `Malformed`, and nothing else, for any other bytes."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise Malformed(PARSE_ERROR, f"not UTF-8: {error}") from None
    if exact_json.is_too_deep(text):
        raise Malformed(INVALID_REQUEST, f"nested deeper than {exact_json.MAX_DEPTH}", _id_of(text))
    try:
        envelope = _decode_envelope(text)
    except msgspec.ValidationError as error:
        raise Malformed(INVALID_REQUEST, f"not a JSON-RPC message: {error}", _id_of(text)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(PARSE_ERROR, f"not JSON: {error}") from None
    return _message(envelope)


def _id_of(text: bytes) -> Id | None:
    try:
        return _decode_id(text).id
    except (msgspec.DecodeError, RecursionError):
        return None


def answered_id(text: bytes) -> Id | None:
    """Return the id that a response which cannot be read answers, where its first or last member tells; else None."""
    asks = text.find(b'"method"')
    if asks >= 0 and not any(0 <= text.find(member) < asks for member in (b'"result"', b'"error"')):
        return None
    found = _ID_FIRST.match(text[:_ID_WITHIN]) or _ID_LAST.search(text[-_ID_WITHIN:])
    return int(found[1]) if found is not None else None


def _message(envelope: _Envelope) -> Message:
    identity = envelope.id if envelope.id is not UNSET else None
    if envelope.jsonrpc != "2.0":
        raise Malformed(INVALID_REQUEST, 'the member "jsonrpc" must be "2.0"', identity)
    if isinstance(identity, str) and len(identity) > _ID_LENGTH:
        raise Malformed(INVALID_REQUEST, f"the id is longer than {_ID_LENGTH} characters")
    if envelope.method is UNSET:
        return _response(envelope, identity)
    params = b"{}" if envelope.params is UNSET else bytes(envelope.params)
    if not params.startswith(b"{"):
        raise Malformed(INVALID_REQUEST, '"params" must be an object', identity)
    if envelope.id is UNSET:
        return Notification(envelope.method, params)
    if identity is None:
        raise Malformed(INVALID_REQUEST, "the id of a request must be a string or an integer")
    return Request(identity, envelope.method, params)


def _response(envelope: _Envelope, identity: Id | None) -> Response:
    if envelope.error is not UNSET and envelope.result is UNSET:
        return Response(identity, None, envelope.error)
    if envelope.result is not UNSET and envelope.error is UNSET and identity is not None:
        return Response(identity, bytes(envelope.result))
    raise Malformed(INVALID_REQUEST, "neither a request, a notification nor a response", identity)


def encode_request(id: Id, method: str, params: Json | None = None) -> bytes:  # noqa: A002 - JSON-RPC's word
    """Return a request's text, without a line end."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        body["params"] = Raw(params)
    return _encode(body)


def encode_notification(method: str, params: Json | None = None) -> bytes:
    """Return a notification's text, without a line end."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        body["params"] = Raw(params)
    return _encode(body)


def encode_result(id: Id, result: Json) -> bytes:  # noqa: A002 - JSON-RPC's word
    """Return a successful response's text, without a line end."""
    return _encode({"jsonrpc": "2.0", "id": id, "result": Raw(result)})


def encode_error(id: Id | None, code: int, message: str, data: Json | None = None) -> bytes:  # noqa: A002
    """Return an error response's text, without a line end. `id` None is written as null."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = Raw(data)
    return _encode({"jsonrpc": "2.0", "id": id, "error": error})


def single_line(text: Json) -> Json:
    """Return `text` without the line breaks that JSON allows between its tokens.

    A line break inside a JSON string is always escaped, so every raw one is white space.
    """
    if b"\n" in text or b"\r" in text:
        return text.replace(b"\r", b" ").replace(b"\n", b" ")
    return text

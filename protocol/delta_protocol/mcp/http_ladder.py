"""What a Streamable HTTP server checks before it works, in order (spec 1.4, 2.1, 3.7, acceptance 57 and 69)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence

import msgspec

from delta_protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Id,
    Json,
    Message,
    Notification,
    Request,
    encode_error,
)
from delta_protocol.mcp import incoming, versions
from delta_protocol.mcp.errors import (
    DEADLINE_EXCEEDED,
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    OVERLOADED,
    UNSUPPORTED_VERSION,
    RpcError,
)
from delta_protocol.mcp.incoming import IncomingCall, RawObject, decode_member
from delta_protocol.mcp.versions import Era

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_STATUS = {-32601: 404, HEADER_MISMATCH: 400, MISSING_CLIENT_CAPABILITY: 400, UNSUPPORTED_VERSION: 400, -32603: 500}
_STATUS_OF_BOTH = {OVERLOADED: 503, DEADLINE_EXCEEDED: 504}


class HttpRefusal(Exception):
    """The answer is `status` with a JSON-RPC error body that repeats the request's id where it is known."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        *,
        data: Json | None = None,
        id: Id | None = None,  # noqa: A002 - JSON-RPC's word
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = tuple(headers)
        self.body = encode_error(id, code, message, data)

    @classmethod
    def from_rpc(cls, status: int, error: RpcError, id: Id | None) -> HttpRefusal:  # noqa: A002
        """Return the refusal that says `error` under `status`."""
        return cls(status, error.code, error.message, data=error.data, id=id)


class Headers:
    """Request headers: names without case, values without surrounding blanks, repeats kept."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip(" \t"))

    def get(self, name: str) -> str | None:
        """Return the first value, None where there is none."""
        values = self._values.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """Return every value."""
        return self._values.get(name, [])

    def beginning(self, prefix: str) -> dict[str, list[str]]:
        """Return the headers whose names begin with `prefix`."""
        return {name: values for name, values in self._values.items() if name.startswith(prefix)}


def check_source(headers: Headers, hosts: Iterable[str], origins: Iterable[str], *, local_origins: bool = True) -> None:
    """Refuse a foreign `Host` or `Origin` with 403. Loopback is always a good host, at any port.

    `hosts` are names, or name:port where the port must fit; `origins` are whole origins, beside those of loopback where
    `local_origins`.
    """
    host = headers.get("host")
    if host is None or not _host_allowed(host.lower(), {name.lower() for name in hosts}):
        raise HttpRefusal(403, INVALID_REQUEST, f"the host {host!r} is not served here; allow it under [http] hosts")
    for origin in headers.all("origin"):
        if not _origin_allowed(origin.lower(), {name.lower() for name in origins}, local=local_origins):
            raise HttpRefusal(
                403, INVALID_REQUEST, f"the origin {origin!r} is not allowed; allow it under [http] origins"
            )


def _host_allowed(host: str, allowed: set[str]) -> bool:
    name = _without_port(host)
    return name in LOOPBACK_NAMES or host in allowed or name in allowed


def _origin_allowed(origin: str, allowed: set[str], *, local: bool) -> bool:
    scheme, separator, host = origin.partition("://")
    if origin in allowed or not local:
        return origin in allowed
    return bool(separator) and scheme in ("http", "https") and _without_port(host) in LOOPBACK_NAMES


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdigit() and (not name.count(":") or name.endswith("]")) else host


def body_too_large(max_body: int) -> HttpRefusal:
    """Return the 413 refusal."""
    return HttpRefusal(413, INVALID_REQUEST, f"the body is longer than {max_body} bytes")


def era_of_post(message: Message, headers: Headers) -> Era:
    """Return which era's ladder a posted message climbs: the body decides, the header where the body claims nothing."""
    version = headers.get(versions.HEADER_VERSION)
    if version is not None and version not in versions.LEGACY_VERSIONS:
        # Whatever the body claims.
        return "modern"
    claims = isinstance(message, Request | Notification) and incoming.claimed_version(message) is not None
    return "modern" if claims else "legacy"


def accept_modern(request: Request, headers: Headers) -> IncomingCall:
    """Return the modern request after steps 3 to 6 of the ladder; later steps are the method's own.

    Raises `HttpRefusal` with 400: -32602 for missing `_meta` keys, -32020 for headers that are missing, repeated or say
    something else than the body, -32022 for a version we do not speak.
    """
    try:
        params, meta, version = incoming.read_modern_claim(request)
        _require(headers, versions.HEADER_VERSION, version)
        _require(headers, versions.HEADER_METHOD, request.method)
        _check_name(request, params, headers)
        call = incoming.modern_call(request, params, meta, version)
    except RpcError as error:
        raise HttpRefusal.from_rpc(400, error, request.id) from None
    if request.method != "tools/call":
        return call
    return msgspec.structs.replace(call, mirrored=headers.beginning(versions.HEADER_PARAM))


def _require(headers: Headers, name: str, expected: str) -> None:
    values = headers.all(name)
    if len(values) != 1:
        raise RpcError(HEADER_MISMATCH, f"the header {name} must be there once")
    if values[0] != expected:
        raise RpcError(HEADER_MISMATCH, f"the header {name} says {values[0]!r}, the body {expected!r}")


def _check_name(request: Request, params: RawObject, headers: Headers) -> None:
    member = versions.NAMED_BY.get(request.method)
    if member is None:
        return
    name = decode_member(params, member)
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, f"{request.method}: {member} must be a string")
    values = headers.all(versions.HEADER_NAME)
    if len(values) != 1:
        raise RpcError(HEADER_MISMATCH, f"the header {versions.HEADER_NAME} must be there once")
    if decode_header_value(values[0]) != name:
        raise RpcError(HEADER_MISMATCH, f"the header {versions.HEADER_NAME} and params.{member} differ")


def encode_header_value(text: str) -> str:
    """Return `text` as a header value: itself where plain, else as ``=?base64?...?=`` (spec 1.5)."""
    plain = text.isascii() and text.isprintable() and text == text.strip(" ")
    if plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header_value(value: str) -> str:
    """Return the text of a header value. Raises `RpcError` -32020 where the encoded form is malformed."""
    if not (value.startswith("=?base64?") and value.endswith("?=") and len(value) >= len("=?base64??=")):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -2], validate=True).decode()
    except (binascii.Error, ValueError):
        raise RpcError(HEADER_MISMATCH, f"the header value {value!r} is no base64 of UTF-8") from None


def status_of(era: Era, code: int | None) -> int:
    """Return the HTTP status of a response with that error code (None: a result)."""
    if code is None:
        return 200
    return _STATUS_OF_BOTH.get(code) or (_STATUS.get(code, 200) if era == "modern" else 200)

"""An accepted client request, equal for both eras, and how each era is read from a message.

Modern (spec 1.3): everything stands in the request's own `_meta`. Legacy (spec 3.1): version, client and capabilities
come from the session that `initialize` began. A request with a version in its `_meta` claims the modern era; without
the claim it is legacy (the table in spec 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Id, Json, Notification, Request
from delta_protocol.mcp import versions
from delta_protocol.mcp.errors import UNSUPPORTED_VERSION, RpcError
from delta_protocol.mcp.levels import Level, read_level
from delta_protocol.mcp.types import flatten_capabilities, json_object
from delta_protocol.mcp.versions import Era

RawObject = Mapping[str, Raw]

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class IncomingCall(msgspec.Struct, frozen=True):
    """One request. `capabilities` are dotted names; `progress_token` is the client's own JSON text, echoed exactly.

    `log_level` is what a modern request asks to be told, None for nothing. `mirrored` holds the `Mcp-Param-*` headers
    by lower-case name, None where the transport has no headers.
    """

    era: Era
    version: str
    id: Id
    method: str
    params: RawObject
    client: str = ""
    capabilities: tuple[str, ...] = ()
    progress_token: Json | None = None
    traceparent: str = ""
    log_level: Level | None = None
    mirrored: Mapping[str, Sequence[str]] | None = None

    def text(self, key: str) -> str | None:
        """Return the string member `key` of the params, None where absent or null.

        Raises `RpcError` (-32602) where it is something else.
        """
        value = decode_member(self.params, key)
        if value is None or isinstance(value, str):
            return value
        raise RpcError(INVALID_PARAMS, f"{self.method}: {key} must be a string")


class LegacySession(msgspec.Struct, frozen=True):
    """What `initialize` settled."""

    version: str
    client: str = ""
    capabilities: tuple[str, ...] = ()


def read_object(text: Json, what: str) -> dict[str, Raw]:
    """Return the members of a JSON object as JSON texts. Raises `RpcError` (-32602) naming `what`."""
    try:
        return _decode_object(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"{what} must be an object: {error}") from None


def decode_member(members: RawObject, key: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the decoded member, None where absent. Raises `RpcError` (-32602) where it cannot be decoded."""
    if key not in members:
        return None
    try:
        return msgspec.json.decode(members[key])
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"{key}: {error}") from None


def read_meta(params: RawObject) -> dict[str, Raw]:
    """Return the members of `params._meta`, empty where there is none."""
    return read_object(bytes(params["_meta"]), "_meta") if "_meta" in params else {}


def claimed_version(message: Request | Notification) -> str | None:
    """Return the version a message claims in its `_meta`; None makes it legacy. Never raises."""
    if b"protocolVersion" not in message.params:
        return None
    try:
        value = decode_member(read_meta(read_object(message.params, "params")), versions.META_VERSION)
    except RpcError:
        return None
    return value if isinstance(value, str) else None


def read_modern(request: Request) -> IncomingCall:
    """Return the modern request. Steps 3 and 6 of the ladder in spec 1.4.

    Raises `RpcError`: -32602 naming the missing keys, -32022 for a version we do not speak.
    """
    return modern_call(request, *read_modern_claim(request))


def modern_call(request: Request, params: RawObject, meta: RawObject, version: str) -> IncomingCall:
    """Return the modern request behind a claim that was read. Raises `RpcError` -32022 for a version we do not know."""
    if version not in versions.MODERN_VERSIONS:
        raise unsupported_version(version)
    client = decode_member(meta, versions.META_CLIENT_INFO)
    return IncomingCall(
        "modern",
        version,
        request.id,
        request.method,
        params,
        _client_name(client),
        flatten_capabilities(decode_member(meta, versions.META_CAPABILITIES)),
        _progress_token(meta),
        _traceparent(meta),
        read_level(decode_member(meta, versions.META_LOG_LEVEL)) if versions.META_LOG_LEVEL in meta else None,
    )


def read_modern_claim(request: Request) -> tuple[RawObject, RawObject, str]:
    """Return params, `_meta` and the claimed version. Raises `RpcError` -32602 naming the missing keys."""
    params = read_object(request.params, "params")
    meta = read_meta(params)
    missing = [key for key in (versions.META_VERSION, versions.META_CAPABILITIES) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
    version = decode_member(meta, versions.META_VERSION)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"params._meta[{versions.META_VERSION}] must be a string")
    if not isinstance(decode_member(meta, versions.META_CAPABILITIES), dict):
        raise RpcError(INVALID_PARAMS, f"params._meta[{versions.META_CAPABILITIES}] must be an object")
    return params, meta, version


def unsupported_version(requested: str) -> RpcError:
    """Return the -32022 error, with the versions that may be named in `_meta`."""
    data = msgspec.json.encode({"supported": list(versions.MODERN_VERSIONS), "requested": requested})
    return RpcError(UNSUPPORTED_VERSION, f"unsupported protocol version: {requested}", data)


def read_legacy(request: Request, session: LegacySession) -> IncomingCall:
    """Return the request of an initialized session. Raises `RpcError` -32602 for params that cannot be read."""
    params = read_object(request.params, "params")
    meta = read_meta(params)
    return IncomingCall(
        "legacy",
        session.version,
        request.id,
        request.method,
        params,
        session.client,
        session.capabilities,
        _progress_token(meta),
        _traceparent(meta),
    )


def read_initialize(request: Request) -> LegacySession:
    """Return the session that an `initialize` request opens.

    Raises `RpcError` -32602 without a version. A version of no legacy revision gets the latest legacy one (spec 2.1).
    """
    params = read_object(request.params, "params")
    version = decode_member(params, "protocolVersion")
    if not isinstance(version, str):
        data = msgspec.json.encode({"supported": [*versions.LEGACY_VERSIONS, *versions.MODERN_VERSIONS]})
        raise RpcError(INVALID_PARAMS, "initialize: protocolVersion must be a string", data)
    client = _client_name(decode_member(params, "clientInfo"))
    return LegacySession(
        versions.negotiate_legacy(version), client, flatten_capabilities(decode_member(params, "capabilities"))
    )


def not_initialized(method: str) -> RpcError:
    """Return the error for a legacy request before `initialize`."""
    return RpcError(
        INVALID_REQUEST,
        f"{method}: no session. Send initialize first, or name {versions.META_VERSION} and "
        f"{versions.META_CAPABILITIES} in params._meta",
    )


def cancelled_id(notification: Notification) -> Id | None:
    """Return the request id that a `notifications/cancelled` names, None where it cannot be read."""
    try:
        value = decode_member(read_object(notification.params, "params"), "requestId")
    except RpcError:
        return None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _client_name(info: Any) -> str:  # noqa: ANN401 - decoded JSON from a peer
    name = json_object(info).get("name")
    return name[:256] if isinstance(name, str) else ""


def _progress_token(meta: RawObject) -> Json | None:
    value = decode_member(meta, versions.META_PROGRESS_TOKEN)
    if isinstance(value, int | str) and not isinstance(value, bool):
        return bytes(meta[versions.META_PROGRESS_TOKEN])
    return None


def _traceparent(meta: RawObject) -> str:
    value = decode_member(meta, "traceparent")
    return value if isinstance(value, str) and len(value) <= 128 else ""

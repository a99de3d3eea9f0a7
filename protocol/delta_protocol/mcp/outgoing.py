"""Results and notifications as a server writes them, shaped per era (spec 1.2, 1.12, 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json, encode_notification
from delta_protocol.mcp import versions
from delta_protocol.mcp.levels import Level
from delta_protocol.mcp.types import Implementation
from delta_protocol.mcp.versions import Era

CacheScope = Literal["public", "private"]

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class ServerIdentity(msgspec.Struct, frozen=True):
    """What every answer may have to say about the server. `ttl_ms` per cacheable method, 0 where unnamed."""

    info: Implementation
    instructions: str = ""
    ttl_ms: dict[str, int] = {}
    cache_scope: CacheScope = "private"


def initialize_result(identity: ServerIdentity, version: str, capabilities: dict[str, Any]) -> Json:
    """Return the result of `initialize`."""
    body: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": identity.info,
    }
    if identity.instructions:
        body["instructions"] = identity.instructions
    return _encode(body)


def discover_result(identity: ServerIdentity, capabilities: dict[str, Any]) -> Json:
    """Return the result of `server/discover`, not yet shaped."""
    body: dict[str, Any] = {
        "supportedVersions": list(versions.MODERN_VERSIONS),
        "capabilities": capabilities,
    }
    if identity.instructions:
        body["instructions"] = identity.instructions
    return _encode(body)


def list_result(member: str, items: Sequence[Json], next_cursor: str | None) -> Json:
    """Return one page of a list, not yet shaped; the items' texts are passed through."""
    body: dict[str, Any] = {member: [Raw(item) for item in items]}
    if next_cursor is not None:
        body["nextCursor"] = next_cursor
    return _encode(body)


def shape(identity: ServerIdentity, era: Era, method: str, result: Json) -> Json:
    """Return `result` as the era wants it.

    Modern results carry `resultType`, the server's info in `_meta` and, where cacheable, `ttlMs` and `cacheScope`.
    Legacy results lose what a modern upstream may have put there. Everything else keeps its text.
    """
    members: dict[str, Any] = dict(_decode_object(result))
    if era == "legacy":
        if "resultType" not in members:
            return result
        del members["resultType"]
        return _encode(members)
    kind = members.setdefault("resultType", Raw(b'"complete"'))
    meta: dict[str, Any] = dict(_decode_object(members["_meta"])) if "_meta" in members else {}
    meta[versions.META_SERVER_INFO] = identity.info
    members["_meta"] = meta
    if method in versions.CACHEABLE and bytes(kind) == b'"complete"':
        members["ttlMs"] = identity.ttl_ms.get(method, 0)
        members["cacheScope"] = identity.cache_scope
    return _encode(members)


def progress_notification(token: Json, progress: float, total: float | None, message: str) -> bytes:
    """Return a `notifications/progress` line with the client's own token."""
    body: dict[str, Any] = {"progressToken": Raw(token), "progress": progress}
    if total is not None:
        body["total"] = total
    if message:
        body["message"] = message
    return encode_notification("notifications/progress", _encode(body))


def log_notification(level: Level, data: Any, logger: str) -> bytes:  # noqa: ANN401 - any JSON value
    """Return a `notifications/message` line (spec 1.13)."""
    body = {"level": level, "logger": logger, "data": data} if logger else {"level": level, "data": data}
    return encode_notification("notifications/message", _encode(body))


def cancelled_notification(request: int | str, reason: str) -> bytes:
    """Return a `notifications/cancelled` line."""
    return encode_notification("notifications/cancelled", _encode({"requestId": request, "reason": reason}))

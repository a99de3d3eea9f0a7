"""Results of one era as the other has them (spec 1.1, 2.1)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.versions import META_SERVER_INFO

_MODERN = ("resultType", "ttlMs", "cacheScope")

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def without_modern(result: Json) -> Json:
    """Return a result without the members that only modern servers put there; everything else keeps its text."""
    if b'"resultType"' not in result:
        return result
    members: dict[str, Any] = dict(_decode_object(result))
    for key in _MODERN:
        members.pop(key, None)
    if "_meta" in members:
        meta = {key: value for key, value in _decode_object(members["_meta"]).items() if key != META_SERVER_INFO}
        members["_meta"] = meta
        if not meta:
            del members["_meta"]
    return msgspec.json.encode(members)

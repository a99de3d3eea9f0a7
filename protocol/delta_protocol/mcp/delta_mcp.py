"""delta-mcp 0.x, as its peers speak it: a version of its own in `initialize`, lists of names, short keys on lines.

A compatibility mode beside our own extension (`disclosure`). What a client of it asked for stands among the session's
capabilities.
"""

from __future__ import annotations

from typing import Any

import msgspec

from delta_protocol.jsonrpc import Json, Request
from delta_protocol.mcp.disclosure import Entry
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import LegacySession, decode_member, read_object
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.types import json_object
from delta_protocol.mcp.versions import LATEST_LEGACY

VERSION = "delta-mcp/0.2.0"
DESCRIBE = "tools/describe"
PROGRESSIVE = "delta-mcp.progressive"
"""The client takes a list of names."""
COMPACT = "delta-mcp.compact"
"""The client takes compact-json."""
_PREFIX = "delta-mcp/"
_MAJOR = "0"


def opened(request: Request, session: LegacySession) -> LegacySession | None:
    """Return the session that an `initialize` of delta-mcp opens, None for any other `initialize`."""
    try:
        params = read_object(request.params, "params")
        version = decode_member(params, "protocolVersion")
        declared = json_object(decode_member(params, "capabilities"))
    except RpcError:
        return None
    if not isinstance(version, str) or not version.startswith(_PREFIX):
        return None
    if version.removeprefix(_PREFIX).partition(".")[0] != _MAJOR:
        return None
    asked = [(PROGRESSIVE, "tools", "progressiveDisclosure"), (COMPACT, "encoding", "compactJson")]
    told = tuple(name for name, group, flag in asked if json_object(declared.get(group)).get(flag))
    return LegacySession(LATEST_LEGACY, session.client, (*session.capabilities, *told))


def initialize_result(identity: ServerIdentity, session: LegacySession) -> Json:
    """Return the result of `initialize`. CBOR is not offered: its bytes could contain a line's end."""
    body: dict[str, Any] = {
        "protocolVersion": VERSION,
        "baselineVersion": LATEST_LEGACY,
        "serverInfo": {"name": identity.info.name, "version": identity.info.version},
        "capabilities": {
            "tools": {"progressiveDisclosure": True, "lazyLoading": True},
            "encoding": {"compactJson": True},
        },
        "encoding": {"format": "compact-json" if COMPACT in session.capabilities else "json"},
    }
    return msgspec.json.encode(body)


def listed(entry: Entry) -> Json:
    """Return a tool as the list of names shows it."""
    return msgspec.json.encode({"name": entry.name, "description": entry.summary or ""})

"""delta-mcp 0.x, as its peers speak it: a version of its own in `initialize`, lists of names, short keys on lines.

A compatibility mode beside our own extension (`disclosure`). What a client of it asked for stands among the session's
capabilities.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json, Request
from delta_protocol.mcp.disclosure import Entry
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.handshake import Agreement, ClientIdentity
from delta_protocol.mcp.incoming import LegacySession, decode_member, read_object
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.types import Implementation, json_object
from delta_protocol.mcp.versions import LATEST_LEGACY

VERSION = "delta-mcp/0.2.0"
DESCRIBE = "tools/describe"
PROGRESSIVE = "delta-mcp.progressive"
"""The client takes a list of names."""
COMPACT = "delta-mcp.compact"
"""The client takes compact-json."""
_TOOLS = {"progressiveDisclosure": True, "lazyLoading": True}
_ENCODING = {"compactJson": True}
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
    if not isinstance(version, str) or not _is_own(version):
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
        "capabilities": {"tools": _TOOLS, "encoding": _ENCODING},
        "encoding": {"format": "compact-json" if COMPACT in session.capabilities else "json"},
    }
    return msgspec.json.encode(body)


def initialize_params(identity: ClientIdentity) -> Json:
    """Return the params by which a client begins as a delta-mcp peer."""
    declared = json_object(msgspec.json.decode(identity.capabilities))
    body = {
        "protocolVersion": VERSION,
        "capabilities": {**declared, "tools": _TOOLS, "encoding": _ENCODING},
        "clientInfo": identity.info,
    }
    return msgspec.json.encode(body)


class _Format(msgspec.Struct):
    format: str = "json"


class _Initialized(msgspec.Struct, rename="camel"):
    protocol_version: str
    server_info: Implementation
    capabilities: Raw
    baseline_version: str = LATEST_LEGACY
    encoding: _Format = msgspec.field(default_factory=_Format)


def read_initialize_result(result: Json) -> tuple[Agreement, bool] | None:
    """Return the agreement with a delta-mcp server and whether lines are compact from now on; None for any other."""
    try:
        found = msgspec.json.decode(result, type=_Initialized)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not _is_own(found.protocol_version):
        return None
    agreement = Agreement("legacy", found.baseline_version, found.server_info, bytes(found.capabilities))
    # A server that would speak CBOR over HTTP means compact-json on lines.
    return agreement, found.encoding.format in ("compact-json", "cbor")


def lists_names(capabilities: Json) -> bool:
    """Whether a server's capabilities are those of one that lists names."""
    try:
        tools = json_object(msgspec.json.decode(capabilities)).get("tools")
    except (msgspec.DecodeError, RecursionError):
        return False
    return json_object(tools).get("progressiveDisclosure") is True


def _is_own(version: str) -> bool:
    return version.startswith(_PREFIX) and version.removeprefix(_PREFIX).partition(".")[0] == _MAJOR


def listed(entry: Entry) -> Json:
    """Return a tool as the list of names shows it."""
    return msgspec.json.encode({"name": entry.name, "description": entry.summary or ""})

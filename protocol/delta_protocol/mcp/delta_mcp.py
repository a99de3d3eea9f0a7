"""delta-mcp 0.x, as its peers speak it: a version of its own in `initialize`, lists of names, shorter messages.

On lines the agreed encoding holds from the handshake on, and CBOR is none: its bytes could contain a line's end. Over
HTTP each message says its own, and the handshake only tells what may be used.

A compatibility mode beside our own extension (`disclosure`). What a client of it asked for stands among the session's
capabilities.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.codecs import negotiate
from delta_protocol.codecs.negotiate import Format
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
ON_LINES = (Format.COMPACT,)
OVER_HTTP = (Format.COMPACT, Format.CBOR)
"""Encodings beside JSON."""
_TOOLS = {"progressiveDisclosure": True, "lazyLoading": True}
_FLAGS = {Format.COMPACT: "compactJson", Format.CBOR: "cbor"}
_PREFIX = "delta-mcp/"
_MAJOR = "0"


def opened(
    request: Request, session: LegacySession, formats: Collection[Format]
) -> tuple[LegacySession, Format] | None:
    """Return the session that an `initialize` of delta-mcp opens, and the encoding agreed on of ours (`formats`) and
    the client's; None for any other `initialize`."""
    try:
        params = read_object(request.params, "params")
        version = decode_member(params, "protocolVersion")
        declared = json_object(decode_member(params, "capabilities"))
    except RpcError:
        return None
    if not isinstance(version, str) or not _is_own(version):
        return None
    told = (PROGRESSIVE,) if json_object(declared.get("tools")).get("progressiveDisclosure") else ()
    encoding = json_object(declared.get("encoding"))
    theirs = [each for each, flag in _FLAGS.items() if encoding.get(flag)]
    opening = LegacySession(LATEST_LEGACY, session.client, (*session.capabilities, *told))
    return opening, negotiate.choose(formats, theirs)


def initialize_result(identity: ServerIdentity, formats: Collection[Format], agreed: Format) -> Json:
    """Return the result of `initialize`."""
    body: dict[str, Any] = {
        "protocolVersion": VERSION,
        "baselineVersion": LATEST_LEGACY,
        "serverInfo": {"name": identity.info.name, "version": identity.info.version},
        "capabilities": {"tools": _TOOLS, "encoding": _flags(formats)},
        "encoding": {"format": agreed.value},
    }
    return msgspec.json.encode(body)


def initialize_params(identity: ClientIdentity, formats: Collection[Format]) -> Json:
    """Return the params by which a client begins as a delta-mcp peer."""
    declared = json_object(msgspec.json.decode(identity.capabilities))
    body = {
        "protocolVersion": VERSION,
        "capabilities": {**declared, "tools": _TOOLS, "encoding": _flags(formats)},
        "clientInfo": identity.info,
    }
    return msgspec.json.encode(body)


def _flags(formats: Collection[Format]) -> dict[str, bool]:
    return {flag: True for each, flag in _FLAGS.items() if each in formats}


class _Format(msgspec.Struct):
    format: str = "json"


class _Initialized(msgspec.Struct, rename="camel"):
    protocol_version: str
    server_info: Implementation
    capabilities: Raw
    baseline_version: str = LATEST_LEGACY
    encoding: _Format = msgspec.field(default_factory=_Format)


def read_initialize_result(result: Json, formats: Collection[Format]) -> tuple[Agreement, Format] | None:
    """Return the agreement with a delta-mcp server and the encoding from now on, one of `formats` or JSON; None for any
    other server."""
    try:
        found = msgspec.json.decode(result, type=_Initialized)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not _is_own(found.protocol_version):
        return None
    agreement = Agreement("legacy", found.baseline_version, found.server_info, bytes(found.capabilities))
    if found.encoding.format == Format.CBOR.value and Format.CBOR not in formats:
        # What a server calls CBOR is compact-json on lines.
        return agreement, Format.COMPACT
    return agreement, next((each for each in formats if each.value == found.encoding.format), Format.JSON)


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

"""How a client learns which era a server speaks, as data: requests to send and answers to judge (spec 2.3, 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp import versions
from delta_protocol.mcp.errors import UNSUPPORTED_VERSION, RpcError
from delta_protocol.mcp.types import Implementation, json_object
from delta_protocol.mcp.versions import Era

LISTEN_PARAMS = b'{"notifications":{"toolsListChanged":true}}'
"""The params of `subscriptions/listen` for all that this client wants to hear, without `_meta`."""

_encode = msgspec.json.Encoder().encode


class Agreement(msgspec.Struct, frozen=True):
    """What client and server settled on. `capabilities` is the server's object as JSON text."""

    era: Era
    version: str
    server: Implementation = Implementation("")
    capabilities: Json = b"{}"
    instructions: str = ""

    @property
    def announces_tool_changes(self) -> bool:
        """Whether the server said that it tells when its tools change."""
        try:
            tools = msgspec.json.decode(self.capabilities, type=_Capabilities).tools
        except (msgspec.DecodeError, RecursionError):
            return False
        return tools is not None and tools.list_changed


class _ToolsCapability(msgspec.Struct, rename="camel"):
    list_changed: bool = False


class _Capabilities(msgspec.Struct):
    tools: _ToolsCapability | None = None


class ClientIdentity(msgspec.Struct, frozen=True):
    """What a client says of itself. `capabilities` is a ClientCapabilities object as JSON text."""

    info: Implementation
    capabilities: Json = b"{}"

    def initialize_params(self) -> Json:
        """Return the params of `initialize`, asking for the latest legacy revision."""
        return _encode(
            {
                "protocolVersion": versions.LATEST_LEGACY,
                "capabilities": Raw(self.capabilities),
                "clientInfo": self.info,
            }
        )

    def modern_meta(self, version: str) -> dict[str, Any]:
        """Return the `_meta` members that every modern request carries (spec 1.3)."""
        return {
            versions.META_VERSION: version,
            versions.META_CAPABILITIES: Raw(self.capabilities),
            versions.META_CLIENT_INFO: self.info,
        }


class NotUnderstood(Exception):
    """The answer is none that a server of the protocol gives; says why."""


class _Discovered(msgspec.Struct, rename="camel"):
    supported_versions: list[str]
    capabilities: Raw = Raw(b"{}")
    instructions: str | None = None
    meta: dict[str, Raw] = msgspec.field(name="_meta", default_factory=dict[str, Raw])


class _Initialized(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: Raw = Raw(b"{}")
    server_info: Raw = Raw(b"{}")
    instructions: str | None = None


class _UnsupportedData(msgspec.Struct):
    supported: list[str] = []


def read_discover(result: Json) -> Agreement | None:
    """Return the agreement that a `server/discover` result allows.

    None: the server speaks only legacy revisions, go on with `initialize`. Raises `NotUnderstood` where it is no
    DiscoverResult, or where nothing is common.
    """
    try:
        found = msgspec.json.decode(result, type=_Discovered)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotUnderstood(f"server/discover: {error}") from None
    version = choose_modern(found.supported_versions)
    if version is None:
        return None
    info = found.meta.get(versions.META_SERVER_INFO)
    server = _implementation(info) if info is not None else Implementation("")
    return Agreement("modern", version, server, bytes(found.capabilities), found.instructions or "")


def choose_modern(supported: Iterable[str]) -> str | None:
    """Return the newest common modern version; None where only legacy ones are common.

    Raises `NotUnderstood` where nothing is.
    """
    offered = set(supported)
    common = [version for version in versions.MODERN_VERSIONS if version in offered]
    if common:
        return common[0]
    if offered.isdisjoint(versions.CLIENT_LEGACY_VERSIONS):
        raise NotUnderstood(f"no common protocol version; the server speaks {', '.join(sorted(offered)) or 'none'}")
    return None


def versions_offered(error: RpcError) -> list[str] | None:
    """Return the versions that a -32022 error offers; None for any other error, which proves nothing."""
    if error.code != UNSUPPORTED_VERSION or error.data is None:
        return None
    try:
        return msgspec.json.decode(error.data, type=_UnsupportedData).supported
    except (msgspec.DecodeError, RecursionError):
        return None


def read_initialize_result(result: Json) -> Agreement:
    """Return the agreement of the legacy handshake. Raises `NotUnderstood`, also for a revision we do not know."""
    try:
        found = msgspec.json.decode(result, type=_Initialized)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotUnderstood(f"initialize: {error}") from None
    if found.protocol_version not in versions.CLIENT_LEGACY_VERSIONS:
        raise NotUnderstood(f"initialize: the server chose the unknown protocol version {found.protocol_version!r}")
    server = _implementation(found.server_info)
    return Agreement("legacy", found.protocol_version, server, bytes(found.capabilities), found.instructions or "")


def with_meta(params: Json, meta: dict[str, Any]) -> Json:
    """Return `params` with the members of `meta` added to its `_meta`. Raises `ValueError` where it is no object."""
    if not meta:
        return params
    try:
        members: dict[str, Any] = dict(msgspec.json.decode(params, type=dict[str, Raw]))
        own: dict[str, Any] = (
            dict(msgspec.json.decode(members["_meta"], type=dict[str, Raw])) if "_meta" in members else {}
        )
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"params: {error}") from None
    members["_meta"] = own | meta
    return _encode(members)


def _implementation(text: Raw) -> Implementation:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return Implementation("")
    members = json_object(value)
    name, version, title = (members.get(key) for key in ("name", "version", "title"))
    return Implementation(
        name if isinstance(name, str) else "",
        version if isinstance(version, str) else "",
        title if isinstance(title, str) else None,
    )

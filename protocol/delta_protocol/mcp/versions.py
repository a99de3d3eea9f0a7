"""The revisions this library speaks, and the names both eras hang on (spec 1.1 to 1.3)."""

from __future__ import annotations

from typing import Literal

Era = Literal["legacy", "modern"]

MODERN_VERSIONS = ("2026-07-28",)
"""Newest first. Per-request metadata, no handshake."""
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Newest first. `initialize` handshake."""

CLIENT_LEGACY_VERSIONS = (*LEGACY_VERSIONS, "2024-11-05")
"""What a client accepts as the answer to `initialize`: tools are the same in the oldest revision."""

LATEST_MODERN = MODERN_VERSIONS[0]
LATEST_LEGACY = LEGACY_VERSIONS[0]

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS_TOKEN = "progressToken"  # noqa: S105 - the protocol's name for it

SUBPROTOCOL = "mcp"
"""Of WebSockets."""

HEADER_VERSION = "mcp-protocol-version"
HEADER_METHOD = "mcp-method"
HEADER_NAME = "mcp-name"
HEADER_SESSION = "mcp-session-id"
HEADER_LAST_EVENT = "last-event-id"
HEADER_PARAM = "mcp-param-"
"""Begins the names of headers that mirror arguments (`x-mcp-header`)."""

CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Methods whose complete modern results carry `ttlMs` and `cacheScope` (spec 1.12)."""
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of `params` that `Mcp-Name` mirrors, by method (spec 1.4)."""
QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""What a server may ask of a client."""


def negotiate_legacy(requested: str) -> str:
    """Return the version that `initialize` answers with: the same if known, else the latest (spec 3.1, 2.1)."""
    return requested if requested in LEGACY_VERSIONS else LATEST_LEGACY

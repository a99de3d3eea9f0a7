"""Where an HTTP server is, and how a client reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import httpx

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.types import Implementation


@dataclass(frozen=True, slots=True)
class HttpParameters:
    """Where the server is. `headers` go out with every request; era, seconds and bytes as in `StdioParameters`."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    era: Literal["auto", "legacy", "modern", "delta-mcp"] = "auto"
    start_timeout: float = 60.0
    probe_timeout: float = 10.0
    connect_timeout: float = 10.0
    max_body: int = 64 << 20
    capabilities: Json = b"{}"
    client: Implementation = field(default_factory=lambda: Implementation("delta-supervisor", "0.1.0"))
    auth: httpx.Auth | None = None
    """What authorises each request, and says whether a refused one is sent again: `OAuth`, or another of httpx's."""

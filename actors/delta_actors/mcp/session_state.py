"""What a legacy client sets for its session after the handshake (spec 3.2, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from delta_protocol.mcp.levels import Level


@dataclass(slots=True)
class SessionState:
    """From which level on it hears log messages, and the resources whose changes it hears of."""

    log_level: Level = "info"
    uris: set[str] = field(default_factory=set[str])

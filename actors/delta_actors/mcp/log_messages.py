"""The logging feature: which messages of `RequestContext.log` a client is sent (spec 1.13, 3.2).

A modern client says with every request from which level on; a legacy client sets it for its session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.methods import Method
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.incoming import IncomingCall, decode_member
from delta_protocol.mcp.levels import read_level
from delta_protocol.mcp.versions import Era


class LogMessages:
    """The feature; `enabled` says whether handlers of this server log now."""

    def __init__(self, *, enabled: Callable[[], bool]) -> None:
        self._enabled = enabled
        self.methods: Mapping[str, Method] = {"logging/setLevel": Method(_set_level, eras=("legacy",))}

    def capabilities(self, era: Era) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Return the logging capability."""
        return {"logging": {}} if self._enabled() else {}


async def _set_level(call: IncomingCall, context: RequestContext) -> Json:
    context.session.log_level = read_level(decode_member(call.params, "level"))
    await trio.lowlevel.checkpoint()
    return b"{}"

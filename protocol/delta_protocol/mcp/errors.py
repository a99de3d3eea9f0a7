"""What may go wrong between two MCP peers.

    McpError
    ├── RpcError        an error of the protocol: raised by a handler it is sent; by a client call it came from the peer
    │   └── UnknownTool the called tool does not exist (-32602, spec 1.10)
    ├── NotSent         the request certainly did not reach the peer's handler
    ├── NoReply         the request may have been carried out; there is no answer
    └── ClientCannot    the client did not declare what a handler asked of it

`NotSent` and `NoReply` are raised locally and are never sent, so a timeout here cannot be taken for the peer's error.
"""

from __future__ import annotations

import msgspec

from delta_protocol.jsonrpc import INVALID_PARAMS, Json

HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND_LEGACY = -32002
URL_ELICITATION_REQUIRED_LEGACY = -32042

OVERLOADED = 42901
"""Ours: no room now; HTTP 503 with Retry-After. Outside the reserved range, as spec 1.2 asks."""
DEADLINE_EXCEEDED = 42902
"""Ours: the request's deadline passed."""


class McpError(Exception):
    """Base of the errors of this package."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RpcError(McpError):
    """A JSON-RPC error. `data` is JSON text or None."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class TaskFailed(RpcError):
    """The error that ended a task. Its call had begun, whatever the code says."""


class UnknownTool(RpcError):
    """The server has no tool of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(INVALID_PARAMS, f"Unknown tool: {name}", msgspec.json.encode({"name": name}))


class NotSent(McpError):
    """Certainly not carried out: not written, not accepted, or the connection was closed before.

    `retry_after` (seconds) where the peer asked for it; `status` is the HTTP status where there was one.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class NoReply(McpError):
    """Sent, but the connection ended or the peer answered against the protocol: the outcome is unknown.

    `status` is the HTTP status of an answer that was none.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ClientCannot(McpError):
    """The client did not declare `method`'s capability on this request, or its era and transport have no way for it.

    `needed` is the capability as a dotted name, empty where declaring one would not help.
    """

    def __init__(self, method: str, reason: str, needed: str = "") -> None:
        super().__init__(f"{method}: {reason}")
        self.method = method
        self.needed = needed

"""How a handler's exception is told to the client (spec 1.2, 1.10)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from delta_protocol.errors import DeadlineExceeded, DeltaError, Overloaded
from delta_protocol.jsonrpc import INTERNAL_ERROR, Json
from delta_protocol.mcp import errors
from delta_protocol.mcp.errors import ClientCannot, RpcError
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.types import ToolResult, capability_object

logger = logging.getLogger(__name__)


def failure_of(call: IncomingCall, raised: Exception) -> RpcError | Json:
    """Return the error of the protocol, or the tool result with `isError`, that `raised` becomes."""
    error = lone(raised)
    match error:
        case RpcError():
            return error
        case Overloaded():
            data = msgspec.json.encode({"retryAfter": retry_after(error)})
            return RpcError(errors.OVERLOADED, error.message, data)
        case DeadlineExceeded():
            return RpcError(errors.DEADLINE_EXCEEDED, error.message)
        case ClientCannot() if call.era == "modern" and error.needed:
            data = msgspec.json.encode({"requiredCapabilities": msgspec.Raw(capability_object(error.needed))})
            return RpcError(errors.MISSING_CLIENT_CAPABILITY, error.message, data)
        case DeltaError() | ClientCannot() if call.method == "tools/call":
            return ToolResult.text(error.message, is_error=True).to_json()
        case _:
            logger.error("%s failed", call.method, exc_info=raised)
            return RpcError(INTERNAL_ERROR, f"Internal error: {type(error).__name__}")


def retry_after(raised: Exception) -> float | None:
    """Return after how many seconds to try again, None where the exception is no `Overloaded`."""
    error = lone(raised)
    return float(error.detail.get("retry_after", 1)) if isinstance(error, Overloaded) else None


def lone(error: Exception) -> Exception:
    """Return the one exception inside nested groups of one: a handler's nursery wraps what it raised."""
    inner: Sequence[Exception] = getattr(error, "exceptions", ())
    return lone(inner[0]) if len(inner) == 1 else error

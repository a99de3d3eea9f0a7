"""Log levels of MCP, which are those of RFC 5424 (spec 1.13, 3.2)."""

from __future__ import annotations

from typing import Literal, cast, get_args

from delta_protocol.jsonrpc import INVALID_PARAMS
from delta_protocol.mcp.errors import RpcError

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

_RANKS: dict[str, int] = {name: rank for rank, name in enumerate(get_args(Level))}


def read_level(value: object) -> Level:
    """Return `value` as a level. Raises `RpcError` -32602 where it is none."""
    if isinstance(value, str) and value in _RANKS:
        return cast("Level", value)
    raise RpcError(INVALID_PARAMS, f"unknown log level {value!r}; levels are {', '.join(_RANKS)}")


def reaches(level: Level, threshold: Level) -> bool:
    """Return whether a message of `level` is shown where `threshold` was asked for."""
    return _RANKS[level] >= _RANKS[threshold]

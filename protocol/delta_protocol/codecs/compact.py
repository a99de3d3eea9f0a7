"""Compact JSON: a JSON-RPC message whose well-known keys are shortened at every depth; values are untouched.

A literal key that equals a short one, or begins with `~`, gets one `~` in front, so that the mapping has an inverse.
Source: CS-05, the compatibility vocabulary's key table. Nesting is capped by `exact_json.MAX_DEPTH`.
"""

from __future__ import annotations

from typing import Any

from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid

CONTENT_TYPE = "application/json; variant=compact"

SHORT = {
    "jsonrpc": "j",
    "method": "m",
    "params": "p",
    "result": "r",
    "error": "e",
    "id": "i",
    "code": "c",
    "message": "msg",
    "name": "n",
    "description": "d",
    "inputSchema": "s",
    "outputSchema": "os",
    "tools": "t",
    "content": "cnt",
    "type": "tp",
    "text": "tx",
}
LONG = {short: long for long, short in SHORT.items()}

_ENVELOPE = ("jsonrpc", "method", "params", "result", "error", "id")


def encode(message: bytes) -> bytes:
    """Return the compact text of a JSON-RPC message in standard JSON. Raises `Invalid` where it is none."""
    value = exact_json.decode(message, what="message")
    if not exact_json.is_object(value) or value.get("jsonrpc") != "2.0":
        raise Invalid("message is not a JSON-RPC message in standard JSON")
    return exact_json.encode(_shortened(value))


def decode(body: bytes) -> bytes:
    """Return the standard JSON of a compact JSON-RPC message.

    Raises `Invalid` for anything else: a message in standard JSON, which would lose its short keys by expanding, one
    whose envelope mixes both forms, and an object in which two keys become the same one.
    """
    value = exact_json.decode(body, what="message")
    if not exact_json.is_object(value) or value.get("j") != "2.0":
        raise Invalid("message is not a JSON-RPC message in compact JSON")
    if any(key in value for key in _ENVELOPE):
        raise Invalid("message mixes compact and standard keys")
    return exact_json.encode(_expanded(value))


def _shortened(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if exact_json.is_object(value):
        return {_short(key): _shortened(item) for key, item in value.items()}
    if exact_json.is_array(value):
        return [_shortened(item) for item in value]
    return value


def _expanded(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if exact_json.is_object(value):
        expanded = {_long(key): _expanded(item) for key, item in value.items()}
        if len(expanded) != len(value):
            raise Invalid("an object of the message has the same key in its short and its long form")
        return expanded
    if exact_json.is_array(value):
        return [_expanded(item) for item in value]
    return value


def _short(key: str) -> str:
    return f"~{key}" if key in LONG or key.startswith("~") else SHORT.get(key, key)


def _long(key: str) -> str:
    return key[1:] if key.startswith("~") else LONG.get(key, key)

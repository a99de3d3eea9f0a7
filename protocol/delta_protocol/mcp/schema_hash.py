"""The hash by which delta-mcp 0.x names an input schema: 32 bits, for telling versions apart, not for security."""

from __future__ import annotations

from delta_protocol.codecs import exact_json
from delta_protocol.jsonrpc import Json

_BASIS, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def schema_hash(schema: Json) -> str:
    """Return FNV-1a over the UTF-16 code units of the canonical text, as 8 hexadecimal digits.

    `{"type":"object"}` gives `9abfc9b4`. Raises `Invalid` for what is no JSON.
    """
    text = exact_json.canonical(exact_json.decode(schema, what="schema")).decode()
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = _BASIS
    for unit in units:
        value = (value ^ unit) * _PRIME & _MASK
    return f"{value:08x}"

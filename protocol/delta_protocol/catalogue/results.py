"""What a tool answered, as programs and people see it."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, cast

from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json


def decoded(call_tool_result: Json) -> Json:
    """Return the value of a CallToolResult: the one form that programs, plans and the journal use.

    Structured content if there is any (a lone ``{"result": x}`` is x); else the one text that is a JSON object or
    array; else the texts, joined, as a JSON string. Blocks that are not text come as handles that describe them, beside
    the text: ``{"text", "blocks": [{"type", "mimeType", "bytes", "sha256"}]}``. Raises `Invalid` if the result is not
    JSON.
    """
    result = _mapping(exact_json.decode(call_tool_result, what="tool result"))
    if "structuredContent" in result:
        return exact_json.encode(_unwrapped(result["structuredContent"]))
    blocks = _blocks(result)
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    handles = [_handle(block) for block in blocks if block.get("type") != "text"]
    if handles:
        return exact_json.encode({"text": "\n".join(texts), "blocks": handles})
    if len(texts) == 1 and texts[0].lstrip()[:1] in {"{", "["}:
        parsed = _parsed(texts[0])
        if parsed is not None:
            return exact_json.encode(parsed)
    return exact_json.encode("\n".join(texts))


def text(call_tool_result: Json) -> str:
    """Return the tool's own words: its text blocks, else its structured content as JSON text."""
    result = _mapping(exact_json.decode(call_tool_result, what="tool result"))
    texts = [str(block.get("text", "")) for block in _blocks(result) if block.get("type") == "text"]
    if texts or "structuredContent" not in result:
        return "\n".join(texts)
    return exact_json.encode(result["structuredContent"]).decode()


def _unwrapped(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["result"]:
        return cast("dict[str, Any]", value)["result"]
    return cast("Any", value)


def _parsed(source: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return exact_json.decode(source)
    except Invalid:
        return None


def _handle(block: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a block without its bytes."""
    kind = str(block.get("type", ""))
    inner = _mapping(block.get("resource")) if kind == "resource" else block
    kept = {key: inner[key] for key in ("uri", "name", "mimeType", "text") if key in inner}
    encoded = inner.get("data", inner.get("blob"))
    if isinstance(encoded, str):
        content = _bytes(encoded)
        if content is None:
            return {"type": kind, **kept, "fault": "not base64"}
        kept |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return {"type": kind, **kept}


def _bytes(encoded: str) -> bytes | None:
    """Both base64 alphabets are in use (acceptance 9)."""
    plain = encoded.translate(str.maketrans("-_", "+/", "\r\n"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _blocks(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = result.get("content")
    return [_mapping(block) for block in cast("list[object]", content)] if isinstance(content, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

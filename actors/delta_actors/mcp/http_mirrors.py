"""What a modern HTTP client knows of tools whose arguments are repeated in headers (`x-mcp-header`, spec 1.5)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.mirrors import BadMirror, Mirror, find_mirrors, mirror_headers

logger = logging.getLogger(__name__)

_MOST_TOOLS = 10_000


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Raw = Raw(b"{}")


class ToolMirrors:
    """The annotated tools of one server, as its lists showed them."""

    def __init__(self) -> None:
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}

    def learn(self, page: Json) -> Json:
        """Take tools, listed or described, and return the text without those whose annotations are invalid."""
        if b"x-mcp-header" not in page:
            return page
        try:
            members: dict[str, Any] = dict(msgspec.json.decode(page, type=dict[str, Raw]))
            tools = msgspec.json.decode(members.get("tools", b"[]"), type=list[Raw])
        except (msgspec.DecodeError, RecursionError):
            return page
        members["tools"] = [tool for tool in tools if self._valid(tool)]
        return msgspec.json.encode(members)

    def _valid(self, text: Raw) -> bool:
        try:
            tool = msgspec.json.decode(text, type=_Tool)
        except (msgspec.DecodeError, RecursionError):
            return True
        try:
            mirrors = find_mirrors(bytes(tool.input_schema))
        except BadMirror as error:
            logger.warning("the tool %s is left out: %s", tool.name, error)
            self._mirrors.pop(tool.name, None)
            return False
        if not mirrors:
            self._mirrors.pop(tool.name, None)
        elif tool.name in self._mirrors or len(self._mirrors) < _MOST_TOOLS:
            self._mirrors[tool.name] = mirrors
        return True

    def headers(self, name: str, arguments: Json) -> dict[str, str]:
        """Return the headers for a call. Raises `ValueError` for what a header may not carry."""
        mirrors = self._mirrors.get(name)
        return {} if mirrors is None else mirror_headers(mirrors, arguments)

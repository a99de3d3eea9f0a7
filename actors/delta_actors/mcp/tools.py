"""The tools feature: `tools/list` and `tools/call` over a `ToolSource` (spec 1.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from delta_actors.mcp.context import RequestContext, ToolSource
from delta_actors.mcp.methods import Method, list_page
from delta_actors.mcp.tasks import Tasks
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member
from delta_protocol.mcp.mirrors import Mirror, check_mirrors
from delta_protocol.mcp.offers import required_text
from delta_protocol.mcp.types import ToolDefinition
from delta_protocol.mcp.versions import Era


@runtime_checkable
class MirroredTools(Protocol):
    """A `ToolSource` whose tools may have arguments that are repeated in headers (`x-mcp-header`)."""

    def mirrors(self, name: str) -> Sequence[Mirror]:
        """Return the annotated arguments of a tool, none for an unknown one."""
        ...


@runtime_checkable
class ScopedTools(Protocol):
    """A `ToolSource` whose tools may need scopes of a token, beside those that the server needs."""

    def scopes(self, name: str) -> Sequence[str]:
        """Return the scopes of a tool, none for an unknown one."""
        ...


class Tools:
    """The feature. It is offered from the start; `size` is the length of a page."""

    def __init__(self, source: ToolSource, size: int, tasks: Tasks) -> None:
        self.source = source
        self._tasks = tasks
        self._size = size
        self._mirrors = source.mirrors if isinstance(source, MirroredTools) else None
        self.methods: Mapping[str, Method] = {
            "tools/list": Method(self._list),
            "tools/call": Method(self._call, asks=True, scopes=self._scopes),
        }

    def _scopes(self, call: IncomingCall) -> Sequence[str]:
        name = decode_member(call.params, "name")
        return self.source.scopes(name) if isinstance(self.source, ScopedTools) and isinstance(name, str) else ()

    def capabilities(self, era: Era) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Return the tools capability."""
        return {"tools": {"listChanged": True}}

    async def _list(self, call: IncomingCall, context: RequestContext) -> Json:
        tools = await self.source.list_tools(context)
        texts = [tool if isinstance(tool, bytes) else self._text(tool, context.era) for tool in tools]
        return list_page(call, "tools", texts, self._size)

    async def _call(self, call: IncomingCall, context: RequestContext) -> Json:
        name = required_text(call, "name")
        arguments = bytes(call.params["arguments"]) if "arguments" in call.params else b"{}"
        if arguments == b"null":
            arguments = b"{}"
        if not arguments.startswith(b"{"):
            raise RpcError(INVALID_PARAMS, "tools/call: arguments must be an object")
        if call.mirrored is not None and self._mirrors is not None and (mirrors := self._mirrors(name)):
            check_mirrors(mirrors, arguments, call.mirrored)

        async def serve() -> Json:
            result = await self.source.call_tool(name, arguments, context)
            return result if isinstance(result, bytes) else result.to_json()

        return await self._tasks.call(call, context, name, serve)

    def _text(self, tool: ToolDefinition, era: Era) -> Json:
        """Return a tool's text; how it runs as a task is told in the legacy era alone (spec 3.5)."""
        support = self._tasks.support(tool.name) if era == "legacy" else None
        return tool.to_json({"execution": {"taskSupport": support}} if support else {})

"""The tools feature: `tools/list` and `tools/call` over a `ToolSource` (spec 1.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from delta_actors.mcp import meta_tools
from delta_actors.mcp.context import RequestContext, ToolSource
from delta_actors.mcp.meta_tools import MetaTools
from delta_actors.mcp.methods import Method, list_page
from delta_actors.mcp.progressive import Shelf
from delta_actors.mcp.tasks import Tasks
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp import delta_mcp, outgoing
from delta_protocol.mcp.errors import RpcError, UnknownTool
from delta_protocol.mcp.incoming import IncomingCall, decode_member
from delta_protocol.mcp.mirrors import Mirror, check_mirrors
from delta_protocol.mcp.offers import required_text
from delta_protocol.mcp.types import ToolDefinition, json_object
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
    """The feature. It is offered from the start; `size` is the length of a page.

    With `meta` the list shows its tools in place of the source's, which can still be called by name. With `names`
    clients of delta-mcp 0.x get a list of names, and single definitions.
    """

    def __init__(
        self, source: ToolSource, size: int, tasks: Tasks, meta: MetaTools | None = None, *, names: bool = False
    ) -> None:
        self.source = source
        self._meta = meta
        self._tasks = tasks
        self._size = size
        self._mirrors = source.mirrors if isinstance(source, MirroredTools) else None
        self._scopes_of = source.scopes if isinstance(source, ScopedTools) else None
        self.methods: dict[str, Method] = {
            "tools/list": Method(self._list),
            "tools/call": Method(self._call, asks=True, scopes=self._scopes),
        }
        self._shelf = Shelf(source)
        if names:
            self.methods[delta_mcp.DESCRIBE] = Method(self._describe, eras=("legacy",))

    def _scopes(self, call: IncomingCall) -> Sequence[str]:
        if self._scopes_of is None:
            return ()
        name = decode_member(call.params, "name")
        if self._meta is not None and name == meta_tools.CALL:
            name = json_object(decode_member(call.params, "arguments")).get("name")
        return self._scopes_of(name) if isinstance(name, str) else ()

    def capabilities(self, era: Era) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Return the tools capability."""
        return {"tools": {"listChanged": True}}

    async def _list(self, call: IncomingCall, context: RequestContext) -> Json:
        if delta_mcp.PROGRESSIVE in call.capabilities:
            tools = await self._shelf.tools(context)
            entries = [self._shelf.entry(tool, digest=False) for tool in tools.values()]
            return outgoing.list_result("tools", [delta_mcp.listed(entry) for entry in entries], None)
        listed = self._meta.definitions() if self._meta is not None else await self.source.list_tools(context)
        texts = [tool if isinstance(tool, bytes) else self._text(tool, context.era) for tool in listed]
        return list_page(call, "tools", texts, self._size)

    async def _describe(self, call: IncomingCall, context: RequestContext) -> Json:
        name = required_text(call, "name")
        tools = await self._shelf.tools(context)
        if name not in tools:
            raise UnknownTool(name)
        return tools[name]

    async def _call(self, call: IncomingCall, context: RequestContext) -> Json:
        name = required_text(call, "name")
        arguments = bytes(call.params["arguments"]) if "arguments" in call.params else b"{}"
        if arguments == b"null":
            arguments = b"{}"
        if not arguments.startswith(b"{"):
            raise RpcError(INVALID_PARAMS, "tools/call: arguments must be an object")
        meta = self._meta
        if meta is not None and name in (meta_tools.SEARCH, meta_tools.DESCRIBE):
            return (await meta.serve(name, arguments, context)).to_json()
        through = meta is not None and name == meta_tools.CALL
        if meta is not None and through:
            name, arguments = meta.target(arguments)
        elif call.mirrored is not None and self._mirrors is not None and (mirrors := self._mirrors(name)):
            check_mirrors(mirrors, arguments, call.mirrored)

        async def serve() -> Json:
            try:
                result = await self.source.call_tool(name, arguments, context)
            except UnknownTool:
                if meta is None or not through:
                    raise
                raise await meta.unknown(name, context) from None
            return result if isinstance(result, bytes) else result.to_json()

        return await self._tasks.call(call, context, name, serve)

    def _text(self, tool: ToolDefinition, era: Era) -> Json:
        """Return a tool's text; how it runs as a task is told in the legacy era alone (spec 3.5)."""
        support = self._tasks.support(tool.name) if era == "legacy" else None
        return tool.to_json({"execution": {"taskSupport": support}} if support else {})

"""`DeltaServer`: one MCP server object for stdio, line streams and HTTP, in both eras at once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio
from trio.abc import ReceiveStream, SendStream

from delta_actors.mcp.context import ToolSource
from delta_actors.mcp.execute import Executor
from delta_actors.mcp.functions import FunctionTools, function_tool
from delta_actors.mcp.line_session import LineLimits, LineSession
from delta_actors.mcp.stdio import stdio_streams
from delta_actors.mcp.subscribers import Subscribers
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.types import Implementation
from delta_protocol.wire.message import Principal

if TYPE_CHECKING:
    from delta_actors.mcp.http_server import Authenticate, HttpServer, HttpSettings

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_CAPABILITIES = b'{"tools":{"listChanged":true}}'


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What holds for every transport. Seconds; `ttl_ms` is how long a modern client may keep the tool list.

    `state_key` seals the state of multi round-trip requests; None makes a key that dies with the server object.
    """

    deadline: float = 60.0
    lines: LineLimits = field(default_factory=LineLimits)
    ttl_ms: int = 0
    state_key: bytes | None = None


class DeltaServer:
    """An MCP server. Its tools come from a `ToolSource`, or from functions given by `tool`; both may not be mixed.

    Handlers run in the scope of the request: cancelling the request cancels them.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        instructions: str = "",
        tools: ToolSource | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        self.settings = settings or ServerSettings()
        self._functions = FunctionTools() if tools is None else None
        source = tools if tools is not None else self._functions
        assert source is not None
        identity = ServerIdentity(
            Implementation(name, version, title),
            instructions,
            _CAPABILITIES,
            {"tools/list": self.settings.ttl_ms, "server/discover": self.settings.ttl_ms},
        )
        self.executor = Executor(
            identity, source, self.settings.deadline, self.settings.state_key or secrets.token_bytes(32)
        )
        self.subscribers = Subscribers()

    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Make the decorated function a tool.

        Name and description default to the function's name and docstring, the schema comes from its parameters. A
        parameter annotated `RequestContext` receives the context. Raises `TypeError` where the server already has a
        `ToolSource`.
        """
        functions = self._functions
        if functions is None:
            raise TypeError("this server takes its tools from a ToolSource")
        annotations = _annotations(read_only, destructive, idempotent)

        def add(function: FunctionT) -> FunctionT:
            functions.add(
                function_tool(function, name=name, title=title, description=description, annotations=annotations)
            )
            self.tools_changed()
            return function

        return add

    def tools_changed(self) -> None:
        """Tell every client that wants to know that the tools changed. Call it from the server's trio task."""
        self.subscribers.poke()

    async def run_stdio(self) -> None:
        """Serve one client on this process's stdin and stdout until it closes stdin."""
        async with stdio_streams() as (receive, send):
            await self.serve_lines(receive, send, principal=Principal("stdio", "stdio"))

    async def serve_lines(
        self,
        receive: ReceiveStream,
        send: SendStream | None = None,
        *,
        principal: Principal,
        conversation: str | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Serve one client over newline-delimited JSON until it closes its side or the stream breaks.

        `send` may be left out where `receive` goes both ways. `conversation` defaults to a fresh name. The streams are
        not closed. `on_close` is called at the end, however it came.
        """
        if send is None:
            if not isinstance(receive, SendStream):
                raise TypeError("a stream that only receives needs a second one to send on")
            send = receive
        session = LineSession(
            self.executor,
            self.subscribers,
            receive,
            send,
            principal=principal,
            conversation=conversation or f"s_{secrets.token_hex(8)}",
            limits=self.settings.lines,
        )
        try:
            await session.run()
        finally:
            if on_close is not None:
                on_close()

    def asgi(
        self,
        settings: HttpSettings,
        *,
        authenticate: Authenticate | None = None,
        shutdown: trio.Event | None = None,
    ) -> HttpServer:
        """Return the server as an ASGI application for Streamable HTTP, to be run under trio.

        Without `authenticate` every client is the loopback principal: bind to loopback only. When `shutdown` is set,
        streams end; requests in progress may finish.
        """
        from delta_actors.mcp.http_server import HttpServer

        return HttpServer(self.executor, self.subscribers, settings, authenticate=authenticate, shutdown=shutdown)

    def run(self) -> None:
        """Run `run_stdio` as this program's whole life."""
        trio.run(self.run_stdio)


def _annotations(read_only: bool | None, destructive: bool | None, idempotent: bool | None) -> Json | None:
    hints = {"readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": idempotent}
    given = {key: value for key, value in hints.items() if value is not None}
    return msgspec.json.encode(given) if given else None

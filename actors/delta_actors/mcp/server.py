"""`DeltaServer`: one MCP server object for stdio, line streams and HTTP, in both eras at once."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from trio.abc import ReceiveStream, SendStream

from delta_actors.mcp.completions import Completions, CompletionSource, FunctionCompletions, Suggest
from delta_actors.mcp.context import ToolSource
from delta_actors.mcp.execute import Executor
from delta_actors.mcp.function_prompts import FunctionPrompt, FunctionPrompts, prompt_arguments
from delta_actors.mcp.function_resources import FunctionResource, FunctionResources, FunctionTemplate
from delta_actors.mcp.functions import FunctionTools, ToolOptions, function_tool
from delta_actors.mcp.line_wire import LineWire
from delta_actors.mcp.log_messages import LogMessages
from delta_actors.mcp.message_session import LineLimits, MessageSession
from delta_actors.mcp.meta_tools import NAMES as META_NAMES
from delta_actors.mcp.meta_tools import MetaTools
from delta_actors.mcp.methods import BOTH, Feature, Methods
from delta_actors.mcp.progressive import Disclosure, ProgressiveTools
from delta_actors.mcp.prompts import Prompts, PromptSource
from delta_actors.mcp.resources import Resources, ResourceSource
from delta_actors.mcp.result_policy import ResultPolicy
from delta_actors.mcp.signatures import name_of, read_signature
from delta_actors.mcp.stdio import stdio_streams
from delta_actors.mcp.subscribers import Concerns, Kind, Subscribers
from delta_actors.mcp.tasks import TaskLimits, Tasks
from delta_actors.mcp.tools import Tools
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.offers import (
    PromptDefinition,
    Reference,
    ResourceDefinition,
    ResourceTemplate,
    UnknownPrompt,
    UnknownResource,
)
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.tasks import TaskSupport
from delta_protocol.mcp.types import Annotations, Icon, Implementation
from delta_protocol.mcp.uri_templates import UriTemplate
from delta_protocol.mcp.versions import CACHEABLE, Era
from delta_protocol.wire.message import Principal

if TYPE_CHECKING:
    from delta_actors.mcp.access import Access, Authenticate
    from delta_actors.mcp.http_server import HttpServer
    from delta_actors.mcp.http_settings import HttpSettings

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
SuggestT = TypeVar("SuggestT", bound=Suggest)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What holds for every transport. Seconds; `ttl_ms` is how long a modern client may keep lists and resources.

    `state_key` seals the state of multi round-trip requests; None makes a key that dies with the server object.
    `page` is how many items a list shows at once; `logging` says whether handlers' log messages are sent; `tasks`
    bounds the calls that run as tasks; `eras` leaves one of both out, for trying clients.
    """

    deadline: float = 60.0
    lines: LineLimits = field(default_factory=LineLimits)
    ttl_ms: int = 0
    state_key: bytes | None = None
    page: int = 1000
    logging: bool = True
    tasks: TaskLimits = field(default_factory=TaskLimits)
    eras: tuple[Era, ...] = BOTH


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a server's parts come from, in place of its decorators; None: from the decorator of that kind."""

    tools: ToolSource | None = None
    resources: ResourceSource | None = None
    prompts: PromptSource | None = None
    completions: CompletionSource | None = None
    logging: Callable[[], bool] | None = None
    """Whether there are log messages now, where that is not known from the start."""


class DeltaServer:
    """An MCP server. Its parts come from sources, or from functions given by decorators; of one kind only one of both.

    Handlers run in the scope of the request: cancelling the request cancels them. Tools are offered from the start,
    the other kinds as soon as there is one. With `disclosure` clients can do without the whole list of tools; each tool
    then needs a summary. `results` keeps what functions return within a number of tokens. Raises `TypeError` for it
    where the tools come from a source.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        instructions: str = "",
        icons: tuple[Icon, ...] = (),
        tools: ToolSource | None = None,
        sources: Sources | None = None,
        settings: ServerSettings | None = None,
        disclosure: Disclosure | None = None,
        results: ResultPolicy | None = None,
    ) -> None:
        self.settings = settings or ServerSettings()
        self._disclosure = disclosure
        sources = sources or Sources()
        self._sources = replace(sources, tools=tools or sources.tools)
        reserved = META_NAMES if disclosure is not None and disclosure.meta_tools else ()
        self._tools = FunctionTools(summaries=disclosure is not None, reserved=reserved, results=results)
        if results is not None:
            _own(self._sources.tools)
        self._resources = FunctionResources()
        self._prompts = FunctionPrompts()
        self._completions = FunctionCompletions(self._check_reference)
        self._tasks = Tasks(self._sources.tools or self._tools, self.settings.tasks, self._tell_task)
        ttl = dict.fromkeys(CACHEABLE, self.settings.ttl_ms)
        identity = ServerIdentity(Implementation(name, version, title, icons=icons), instructions, ttl)
        resources = self._sources.resources or self._resources
        self.subscribers = Subscribers(lambda: self.executor.methods.capabilities("modern"), resources)
        methods = Methods(identity, self._features())
        key = self.settings.state_key or secrets.token_bytes(32)
        self.executor = Executor(
            identity, methods, self.settings.deadline, key, self.settings.logging, self.settings.eras,
            disclosure is not None and disclosure.delta_mcp,
        )  # fmt: skip

    def _features(self) -> list[Feature]:
        sources, page = self._sources, self.settings.page
        tools, disclosure = sources.tools or self._tools, self._disclosure
        meta = MetaTools(tools, disclosure.max_describe) if disclosure is not None and disclosure.meta_tools else None
        progressive = ProgressiveTools(tools, disclosure or Disclosure(methods=False), page, self.settings.ttl_ms)
        return [
            Tools(tools, page, self._tasks, meta, names=disclosure is not None and disclosure.delta_mcp),
            progressive,
            self._tasks,
            Resources(sources.resources or self._resources, page, self.subscribers),
            Prompts(sources.prompts or self._prompts, page),
            Completions(sources.completions or self._completions),
            LogMessages(enabled=sources.logging or (lambda: self.settings.logging)),
        ]

    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        input_schema: Json | None = None,
        output_schema: Json | None = None,
        icons: tuple[Icon, ...] = (),
        meta: Json | None = None,
        task: TaskSupport | None = None,
        scopes: tuple[str, ...] = (),
        summary: str | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Make the decorated function a tool.

        Name and description default to the function's name and docstring, the schema comes from its parameters, the
        output schema from a returned Struct, dataclass or TypedDict. A parameter annotated `RequestContext` receives
        the context. Schemas given here are shown as they are, and checked. With `task` the function may go on as a task
        (`RequestContext.begin_task`); if `required`, clients that know no tasks are refused. Over HTTP a token needs
        `scopes` for it, beside those that the server needs. `summary` is what an index shows of the tool, at most 60
        characters; the description is what ordinary clients see. Raises `TypeError` where the server has a
        `ToolSource`, and what `function_tool` and `FunctionTools.add` raise.
        """
        _own(self._sources.tools)
        options = ToolOptions(
            name, title, description, read_only, destructive, idempotent, open_world, input_schema, output_schema,
            icons, meta, task, scopes, summary,
        )  # fmt: skip

        def add(function: FunctionT) -> FunctionT:
            self._tools.add(function_tool(function, options))
            self.changed("tools")
            return function

        return add

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: tuple[Icon, ...] = (),
    ) -> Callable[[FunctionT], FunctionT]:
        """Make the decorated function a resource, or a template where `uri` has variables (RFC 6570).

        The function takes the template's variables. Raises `TypeError` where the server has a `ResourceSource`,
        `BadTemplate`, and what `FunctionResources.add` raises.
        """
        _own(self._sources.resources)

        def add(function: FunctionT) -> FunctionT:
            shown, text = name or name_of(function), description or inspect.getdoc(function)
            signature = read_signature(function)
            if "{" in uri:
                template = ResourceTemplate(uri, shown, title, text, mime_type, annotations, icons)
                self._resources.add(FunctionTemplate(template, UriTemplate(uri), signature))
            else:
                resource = ResourceDefinition(uri, shown, title, text, mime_type, size, annotations, icons)
                self._resources.add(FunctionResource(resource, signature))
            self.changed("resources")
            return function

        return add

    def prompt(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        icons: tuple[Icon, ...] = (),
    ) -> Callable[[FunctionT], FunctionT]:
        """Make the decorated function a prompt; its parameters are the arguments.

        Raises `TypeError` where the server has a `PromptSource`, `ValueError` for a name that is taken.
        """
        _own(self._sources.prompts)

        def add(function: FunctionT) -> FunctionT:
            shown, text = name or name_of(function), description or inspect.getdoc(function)
            signature = read_signature(function)
            definition = PromptDefinition(shown, title, text, prompt_arguments(signature), icons)
            self._prompts.add(FunctionPrompt(definition, signature))
            self.changed("prompts")
            return function

        return add

    def completion(
        self, argument: str, *, prompt: str | None = None, resource: str | None = None
    ) -> Callable[[SuggestT], SuggestT]:
        """Make the decorated function suggest values for an argument of a prompt, or of a resource template.

        It takes the text so far and the other arguments' values. Raises `TypeError` unless one of both is named, or
        where the server has a `CompletionSource`; `ValueError` where there is one already.
        """
        _own(self._sources.completions)
        if (prompt is None) == (resource is None):
            raise TypeError("a completion is for a prompt, or for a resource template")
        reference = (
            Reference("resource", resource) if prompt is None and resource else Reference("prompt", prompt or "")
        )

        def add(function: SuggestT) -> SuggestT:
            self._completions.add(reference, argument, function)
            return function

        return add

    def remove_tool(self, name: str) -> None:
        """Take back a function's tool. Raises `KeyError` where there is none of that name."""
        self._tools.remove(name)
        self.changed("tools")

    def remove_resource(self, uri: str) -> None:
        """Take back a function's resource or template. Raises `KeyError` where there is none."""
        self._resources.remove(uri)
        self.changed("resources")

    def remove_prompt(self, name: str) -> None:
        """Take back a function's prompt. Raises `KeyError` where there is none of that name."""
        self._prompts.remove(name)
        self.changed("prompts")

    def changed(self, kind: Kind) -> None:
        """Tell every client that wants to know that a list changed. Call it from the server's trio task."""
        self.subscribers.changed(kind)

    def tools_changed(self) -> None:
        """Tell that the tools changed; see `changed`."""
        self.changed("tools")

    def resource_updated(self, uri: str, concerns: Concerns | None = None) -> None:
        """Tell the clients that subscribed to it that a resource changed. Call it from the server's trio task.

        With `concerns`, only those are told whom it concerns.
        """
        self.subscribers.updated(uri, concerns)

    def _check_reference(self, reference: Reference) -> None:
        """Raise `RpcError` -32602 for a completion of what is not there; sources check for themselves."""
        if reference.kind == "prompt" and self._sources.prompts is None and not self._prompts.has(reference.name):
            raise UnknownPrompt(reference.name)
        if reference.kind == "resource" and self._sources.resources is None and not self._resources.has(reference.name):
            raise UnknownResource(reference.name)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None, None]:
        """Give tasks a home: those that still run at the end of the block are cancelled.

        `run_stdio`, `serve_lines` and `serve_http` enter it by themselves. Enter it around them where tasks shall
        outlive a connection; inside another block of the same server it does nothing.
        """
        if self._tasks.at_home:
            yield
            return
        async with trio.open_nursery() as nursery:
            self._tasks.home(nursery)
            try:
                yield
            finally:
                self._tasks.home(None)
                nursery.cancel_scope.cancel()

    def _tell_task(self, owner: str, task: str, state: dict[str, Any]) -> None:
        self.subscribers.task_moved(owner, task, state)

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
        limits = self.settings.lines
        session = MessageSession(
            self.executor,
            self.subscribers,
            LineWire(receive, send, limits.max_line),
            principal=principal,
            conversation=conversation or f"s_{secrets.token_hex(8)}",
            limits=limits,
        )
        try:
            async with self.serving():
                await session.run()
        finally:
            if on_close is not None:
                on_close()

    def asgi(
        self,
        settings: HttpSettings,
        *,
        authenticate: Access | Authenticate | None = None,
        shutdown: trio.Event | None = None,
    ) -> HttpServer:
        """Return the server as an ASGI application for Streamable HTTP, to be run under trio.

        `authenticate`: one of the modes of `access`, or a check of one's own. Without any, clients of this machine are
        served as the loopback principal and others are refused. When `shutdown` is set,
        streams end; requests in progress may finish.
        """
        from delta_actors.mcp.http_server import HttpServer

        return HttpServer(self.executor, self.subscribers, settings, authenticate=authenticate, shutdown=shutdown)

    def run(self) -> None:
        """Run `run_stdio` as this program's whole life."""
        trio.run(self.run_stdio)


def _own(source: object) -> None:
    if source is not None:
        raise TypeError("this server takes these from a source")

"""The tasks feature: a tool's call that goes on after its request was answered (spec 1.17, 3.5).

Tasks live in this process: a restart forgets them, and asking for one then is -32602, as after its end of life.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec
import trio

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.methods import Method, list_page
from delta_actors.mcp.task_run import Serve, TaskRun
from delta_protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Json
from delta_protocol.mcp import tasks
from delta_protocol.mcp.errors import OVERLOADED, RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member, read_object
from delta_protocol.mcp.offers import required_text
from delta_protocol.mcp.tasks import Task, TaskSupport
from delta_protocol.mcp.types import json_object
from delta_protocol.mcp.versions import Era

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Seconds: `ttl` is a task's life from its creation, `poll` how often a client should ask.

    `count` are kept in all, `each` of one principal; where there are as many, the one that ended first is forgotten.
    """

    ttl: float = 3600.0
    poll: float = 1.0
    count: int = 1000
    each: int = 250


@runtime_checkable
class TaskTools(Protocol):
    """A `ToolSource` of which some tools may run as tasks."""

    def task_support(self, name: str) -> TaskSupport | None:
        """Return whether the tool may run as a task; None for one that may not, and for an unknown one."""
        ...

    def any_task_support(self) -> bool:
        """Whether any tool may."""
        ...


Tell = Callable[[str, str, dict[str, Any]], None]
"""Takes a task's owner and id, and what it is now."""


class Tasks:
    """The feature. It is offered while a tool supports it and `home` gives tasks a nursery."""

    def __init__(self, source: object, limits: TaskLimits, tell: Tell) -> None:
        self._source = source if isinstance(source, TaskTools) else None
        self._limits = limits
        self._tell = tell
        self._nursery: trio.Nursery | None = None
        self._runs: dict[str, TaskRun] = {}
        self.methods: Mapping[str, Method] = {
            "tasks/get": Method(self._get),
            "tasks/update": Method(self._update, eras=("modern",)),
            "tasks/cancel": Method(self._cancel),
            "tasks/result": Method(self._result, eras=("legacy",)),
            "tasks/list": Method(self._list, eras=("legacy",)),
        }

    def capabilities(self, era: Era) -> dict[str, Any]:
        """Return the extension, or the legacy capability."""
        if self._source is None or self._nursery is None or not self._source.any_task_support():
            return {}
        if era == "modern":
            return {"extensions": {tasks.EXTENSION: {}}}
        return {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}

    @property
    def at_home(self) -> bool:
        """Whether tasks have a nursery."""
        return self._nursery is not None

    def home(self, nursery: trio.Nursery | None) -> None:
        """Run tasks in `nursery` from now on; None: no more."""
        self._nursery = nursery

    def support(self, name: str) -> TaskSupport | None:
        """Return a tool's support where tasks can be had at all."""
        return None if self._source is None or self._nursery is None else self._source.task_support(name)

    async def call(self, call: IncomingCall, context: RequestContext, name: str, serve: Serve) -> Json:
        """Run a tool's handler, as a task if client and handler want that. Returns the result or what creates the task.

        Raises what the handler raised; `RpcError` -32021 or -32601 where the tool runs only as a task and the client
        did not ask for one, -32601 for a legacy client that asks for what is not there.
        """
        support, nursery = self.support(name), self._nursery
        wanted = _wants(call)
        if support is None or nursery is None:
            if wanted and call.era == "legacy" and self.capabilities("legacy"):
                raise RpcError(METHOD_NOT_FOUND, f"{name} does not run as a task")
            return await serve()
        if not wanted:
            if support == "required" and call.era == "modern":
                raise tasks.not_declared(name)
            if support == "required":
                raise RpcError(METHOD_NOT_FOUND, f"{name} runs only as a task: call it with `task`")
            return await serve()
        self._forget(time.time())
        self._make_room(
            [n for n, run in self._runs.items() if run.task.owner == context.principal.id], self._limits.each
        )
        self._make_room(list(self._runs), self._limits.count)
        run = TaskRun(call, context, self._new(call, context), self._moved)
        return await run.until_settled(nursery, serve, self._runs, at_once=call.era == "legacy")

    def _new(self, call: IncomingCall, context: RequestContext) -> Task:
        ttl = self._limits.ttl
        asked = json_object(decode_member(call.params, "task")).get("ttl") if call.era == "legacy" else None
        if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0:
            ttl = min(ttl * 1000, asked) / 1000
        poll = int(self._limits.poll * 1000)
        return Task(secrets.token_urlsafe(18), context.principal.id, time.time(), int(ttl * 1000), poll)

    def _moved(self, task: Task) -> None:
        self._tell(task.owner, task.id, tasks.detailed(task))

    def _forget(self, now: float) -> None:
        for name in [name for name, run in self._runs.items() if run.task.expires <= now]:
            self._runs.pop(name).end()

    def _make_room(self, names: Sequence[str], limit: int) -> None:
        """Forget the one of `names` that ended first, if there are `limit`. Raises `RpcError` where all are at work."""
        if len(names) < limit:
            return
        ended = [name for name in names if self._runs[name].task.final]
        if not ended:
            raise RpcError(OVERLOADED, f"busy: {limit} tasks at once")
        del self._runs[min(ended, key=lambda name: self._runs[name].task.updated)]

    def _find(self, call: IncomingCall, context: RequestContext) -> TaskRun:
        if call.era == "modern" and not _wants(call):
            raise tasks.not_declared(call.method)
        name = required_text(call, "taskId")
        self._forget(time.time())
        run = self._runs.get(name)
        if run is None or run.task.owner != context.principal.id:
            raise tasks.unknown_task(name)
        return run

    async def _get(self, call: IncomingCall, context: RequestContext) -> Json:
        task = self._find(call, context).task
        await trio.lowlevel.checkpoint()
        return msgspec.json.encode(tasks.detailed(task) if call.era == "modern" else tasks.legacy(task))

    async def _update(self, call: IncomingCall, context: RequestContext) -> Json:
        run = self._find(call, context)
        if "inputResponses" not in call.params:
            raise RpcError(INVALID_PARAMS, "tasks/update: inputResponses is missing")
        given = read_object(bytes(call.params["inputResponses"]), "inputResponses")
        run.answer({key: bytes(text) for key, text in given.items()})
        await trio.lowlevel.checkpoint()
        return b"{}"

    async def _cancel(self, call: IncomingCall, context: RequestContext) -> Json:
        run = self._find(call, context)
        ended_now = run.cancel()
        await trio.lowlevel.checkpoint()
        if call.era == "modern":
            return b"{}"
        if not ended_now:
            raise RpcError(INVALID_PARAMS, f"the task is {run.task.status} already")
        return msgspec.json.encode(tasks.legacy(run.task))

    async def _result(self, call: IncomingCall, context: RequestContext) -> Json:
        run = self._find(call, context)
        await run.until_final(context)
        task = run.task
        if task.error is not None:
            raise task.error
        if task.result is None:
            raise RpcError(INVALID_PARAMS, "the task was cancelled: it has no result")
        return tasks.with_related(task, task.result)

    async def _list(self, call: IncomingCall, context: RequestContext) -> Json:
        self._forget(time.time())
        mine = [
            msgspec.json.encode(tasks.legacy(run.task))
            for run in self._runs.values()
            if run.task.owner == context.principal.id and run.conversation == context.conversation
        ]
        await trio.lowlevel.checkpoint()
        return list_page(call, "tasks", mine, self._limits.count)


def _wants(call: IncomingCall) -> bool:
    """Whether the client lets this call become a task: by declaring the extension, or by the legacy `task`."""
    if call.era == "modern":
        return tasks.CAPABILITY in call.capabilities
    return "task" in call.params and bytes(call.params["task"]).startswith(b"{")

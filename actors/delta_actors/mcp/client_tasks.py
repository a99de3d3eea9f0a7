"""A tool's call as its caller sees it where the server makes a task of it: followed to its result (spec 1.17, 3.5).

Once a task was begun nothing that goes wrong says that the call was not carried out: what its server says about the
task is `TaskFailed` or `NoReply`, never `NotSent` or an error about the request.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
import trio
from msgspec import Raw

from delta_actors.mcp.client_calls import OnNotification, OnProgress, OnQuestion
from delta_protocol.jsonrpc import METHOD_NOT_FOUND, Json
from delta_protocol.mcp.errors import ClientCannot, McpError, NoReply, NotSent, RpcError, TaskFailed
from delta_protocol.mcp.tasks import FINAL
from delta_protocol.mcp.types import json_object
from delta_protocol.mcp.versions import Era

_POLL = 1.0
_SHORTEST_POLL, _LONGEST_POLL = 0.05, 60.0
_MISSED = 5
"""Polls in a row that may get no answer: a server over HTTP may be starting anew."""
_LAST_WORDS = 2.0


class Session(Protocol):
    """The session that the call is made in."""

    @property
    def era(self) -> Era:
        """Its era."""
        ...

    @property
    def capabilities(self) -> Json:
        """What the server declared."""
        ...

    async def request(
        self,
        method: str,
        params: Json = b"{}",
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        on_notification: OnNotification | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Json:
        """Send a request and return its result."""
        ...


class _Asked(msgspec.Struct):
    method: str
    params: Raw = Raw(b"{}")


class _Fault(msgspec.Struct):
    code: int
    message: str
    data: Raw = Raw()


class _Task(msgspec.Struct, rename="camel"):
    task_id: str
    status: str
    status_message: str = ""
    poll_interval_ms: float | None = None
    input_requests: dict[str, _Asked] = {}
    result: Raw = Raw()
    error: _Fault | None = None


class _LegacyTask(msgspec.Struct, rename="camel"):
    task_id: str


class _Kind(msgspec.Struct, rename="camel"):
    result_type: str = ""


class _Created(msgspec.Struct):
    task: _LegacyTask


async def call_tool(
    session: Session,
    params: Json,
    *,
    on_progress: OnProgress | None = None,
    on_question: OnQuestion | None = None,
    on_task_question: OnQuestion | None = None,
    on_notification: OnNotification | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Json:
    """Make a `tools/call` and return its result, an `input_required` one as it is.

    `on_task_question` answers what a modern server's task asks, for which there are no rounds. A legacy tool that runs
    only as a task is called as one. Being cancelled cancels the task, as does a question that nobody answers. Raises
    what `DeltaClient.request` raises, and `TaskFailed` with the error that ended a task.
    """

    async def call(text: Json) -> Json:
        return await session.request(
            "tools/call",
            text,
            on_progress=on_progress,
            on_question=on_question,
            on_notification=on_notification,
            meta=meta,
        )

    try:
        result = await call(params)
    except RpcError as error:
        if error.code != METHOD_NOT_FOUND or session.era != "legacy" or not _takes_tasks(session.capabilities):
            raise
        created = await call(msgspec.json.encode({**msgspec.json.decode(params, type=dict[str, Raw]), "task": {}}))
        return await _legacy_result(_Following(session, meta), created, on_question)
    if session.era == "modern" and _kind(result) == "task":
        return await _follow(_Following(session, meta), result, on_progress, on_task_question)
    return result


class _Following:
    """Asks about tasks, each time with what the call's request said of the client."""

    def __init__(self, session: Session, meta: Mapping[str, Any] | None) -> None:
        self._session = session
        self._meta = meta

    async def request(self, method: str, task: str, on_question: OnQuestion | None = None, **more: Any) -> Json:  # noqa: ANN401 - JSON values
        params = msgspec.json.encode({"taskId": task, **more})
        return await self._session.request(method, params, on_question=on_question, meta=self._meta)


def _kind(result: Json) -> str:
    try:
        return msgspec.json.decode(result, type=_Kind).result_type
    except (msgspec.DecodeError, RecursionError):
        return ""


def _takes_tasks(capabilities: Json) -> bool:
    """Whether a legacy server makes tasks of tools' calls."""
    try:
        found = json_object(msgspec.json.decode(capabilities))
    except (msgspec.DecodeError, RecursionError):
        return False
    for name in ("tasks", "requests", "tools"):
        found = json_object(found.get(name))
    return "call" in found


async def _legacy_result(following: _Following, created: Json, on_question: OnQuestion | None) -> Json:
    """Wait for the result that `tasks/result` gives once there is one; what the task asks comes meanwhile."""
    try:
        task = msgspec.json.decode(created, type=_Created).task
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReply(f"the task is against the protocol: {error}") from None
    async with _cancelling(following, task.task_id) as ended:
        try:
            result = await following.request("tasks/result", task.task_id, on_question)
        except RpcError as error:
            ended.set()
            raise TaskFailed(error.code, error.message, error.data) from None
        except NotSent as error:
            raise NoReply(f"the task's result could not be fetched: {error.message}") from None
        ended.set()
        return result


async def _follow(
    following: _Following, created: Json, on_progress: OnProgress | None, on_question: OnQuestion | None
) -> Json:
    """Poll until the task has ended, answering what it asks and telling what it says."""
    task = _read(created)
    said, count, asked, answered = "", 0, False, set[str]()
    async with _cancelling(following, task.task_id) as ended:
        # What creates a task may say that it has ended, but never how.
        while not asked or task.status not in FINAL:
            if on_progress is not None and task.status_message != said:
                said, count = task.status_message, count + 1
                await on_progress(float(count), None, said)
            await _answer(following, task, on_question, answered)
            if task.status not in FINAL:
                wait = _POLL if task.poll_interval_ms is None else task.poll_interval_ms / 1e3
                await trio.sleep(min(max(wait, _SHORTEST_POLL), _LONGEST_POLL))
            task, asked = await _get(following, task), True
        ended.set()
    if task.error is not None:
        raise TaskFailed(task.error.code, task.error.message, bytes(task.error.data) or None)
    if task.status == "cancelled":
        raise NoReply(f"the task was cancelled{': ' if task.status_message else ''}{task.status_message}")
    if not bytes(task.result):
        raise NoReply(f"the task is against the protocol: it is {task.status} without a result")
    return bytes(task.result)


@asynccontextmanager
async def _cancelling(following: _Following, task: str) -> AsyncGenerator[trio.Event, None]:
    """Cancel the task if the block is left before the event it gives is set: nobody will fetch the result."""
    ended = trio.Event()
    try:
        yield ended
    finally:
        if not ended.is_set():
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORDS):
                with contextlib.suppress(McpError):
                    await following.request("tasks/cancel", task)


async def _get(following: _Following, task: _Task) -> _Task:
    missed = 0
    while True:
        try:
            return _read(await following.request("tasks/get", task.task_id))
        except RpcError as error:
            raise NoReply(f"the task's server says of it: {error}") from None
        except (NotSent, NoReply) as error:
            missed += 1
            if missed == _MISSED:
                raise NoReply(f"what became of the task could not be learnt: {error.message}") from None
        await trio.sleep(_POLL)


async def _answer(following: _Following, task: _Task, on_question: OnQuestion | None, answered: set[str]) -> None:
    """Answer what the task asks, each key once: none is used again, and one that is still shown is on its way."""
    answers: dict[str, Raw] = {}
    for key, asked in task.input_requests.items():
        if key in answered:
            continue
        if on_question is None:
            raise NoReply(f"the task asks {asked.method}, which nobody here answers")
        try:
            answers[key] = Raw(await on_question(asked.method, bytes(asked.params)))
        except (ClientCannot, RpcError) as error:
            # There is no way to tell a task that its question gets no answer, but to cancel it.
            raise NoReply(f"the task asks {asked.method} and gets no answer: {error.message}") from None
    if not answers:
        return
    answered.update(answers)
    try:
        await following.request("tasks/update", task.task_id, inputResponses=answers)
    except (RpcError, NotSent) as error:
        raise NoReply(f"the task did not take the answer to its question: {error.message}") from None


def _read(text: Json) -> _Task:
    try:
        return msgspec.json.decode(text, type=_Task)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReply(f"the task is against the protocol: {error}") from None

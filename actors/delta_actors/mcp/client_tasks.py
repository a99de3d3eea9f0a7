"""Follows a call that became a task to its result (spec 1.17)."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import msgspec
import trio
from msgspec import Raw

from delta_actors.mcp.client_calls import OnQuestion
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import McpError, NoReply, RpcError

_POLL = 1.0
_SHORTEST_POLL = 0.05
_LAST_WORDS = 2.0
_FINAL = ("completed", "failed", "cancelled")


class Requests(Protocol):
    """The connection that the task was begun over."""

    async def request(self, method: str, params: Json = b"{}") -> Json:
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


async def follow(client: Requests, created: Json, on_question: OnQuestion | None) -> Json:
    """Poll until the task has ended, answering what it asks, and return the result that the call has.

    Being cancelled cancels the task, as does a question that nobody answers. Raises `RpcError` with the task's error,
    `NoReply` where it was cancelled, or is not known any more.
    """
    task = _read(created)
    try:
        while not bytes(task.result) and task.error is None:
            if task.status == "cancelled":
                raise NoReply(f"the task was cancelled{': ' if task.status_message else ''}{task.status_message}")
            await _answer(client, task, on_question)
            await trio.sleep(
                _POLL if task.poll_interval_ms is None else max(_SHORTEST_POLL, task.poll_interval_ms / 1e3)
            )
            task = _read(await client.request("tasks/get", _params(task)))
    finally:
        if task.status not in _FINAL:
            # Nobody will fetch the result.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORDS):
                with contextlib.suppress(McpError):
                    await client.request("tasks/cancel", _params(task))
    if task.error is not None:
        raise RpcError(task.error.code, task.error.message, bytes(task.error.data) or None)
    return bytes(task.result)


async def _answer(client: Requests, task: _Task, on_question: OnQuestion | None) -> None:
    if not task.input_requests:
        return
    if on_question is None:
        raise NoReply(f"the task asks {next(iter(task.input_requests.values())).method}, which nobody here answers")
    answers = {
        key: Raw(await on_question(asked.method, bytes(asked.params))) for key, asked in task.input_requests.items()
    }
    await client.request("tasks/update", _params(task, inputResponses=answers))


def _params(task: _Task, **more: Any) -> Json:  # noqa: ANN401 - JSON values
    return msgspec.json.encode({"taskId": task.task_id, **more})


def _read(text: Json) -> _Task:
    try:
        return msgspec.json.decode(text, type=_Task)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReply(f"the task is against the protocol: {error}") from None

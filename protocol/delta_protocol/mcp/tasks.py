"""Long calls as tasks: the extension of the modern era (spec 1.17, SEP-2663) and the legacy experiment (spec 3.5).

One state machine for both:

    working <-> input_required        while answers to questions are open
       |             |
       +------+------+
              v
    completed | failed | cancelled    final; what comes later is ignored

`completed` holds a result, also one with `isError`; `failed` is for errors of the protocol alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import MISSING_CLIENT_CAPABILITY, RpcError
from delta_protocol.mcp.questions import Question, fits

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITY = f"extensions.{EXTENSION}"
"""How a modern client's declaration is flattened."""
META_RELATED = "io.modelcontextprotocol/related-task"

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
TaskSupport = Literal["optional", "required"]
"""Whether a tool may run as a task, or only so."""

FINAL = frozenset({"completed", "failed", "cancelled"})


class Task:
    """One task. Times are wall-clock seconds since the epoch; `ttl` and `poll` are milliseconds.

    `ttl` counts from the creation: until then the task can be asked for, afterwards it is gone.
    """

    def __init__(self, id: str, owner: str, now: float, ttl: int, poll: int) -> None:  # noqa: A002 - the field's name
        self.id = id
        self.owner = owner
        self.created = now
        self.updated = now
        self.ttl = ttl
        self.poll = poll
        self.status: TaskStatus = "working"
        self.message = ""
        self.result: Json | None = None
        self.error: RpcError | None = None
        self._open: dict[str, Question] = {}
        self._answers: dict[str, Json] = {}
        self._asked = 0

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in FINAL

    @property
    def expires(self) -> float:
        """When the task may be forgotten."""
        return self.created + self.ttl / 1000

    @property
    def questions(self) -> Mapping[str, Question]:
        """The questions without an answer, by key."""
        return self._open

    def ask(self, questions: Sequence[Question], now: float) -> list[str]:
        """Open `questions` and return the keys their answers will come under; no key is used twice in a task's life."""
        keys: list[str] = []
        for question in questions:
            self._asked += 1
            key = f"{question.key or 'q'}-{self._asked}"
            self._open[key] = question
            keys.append(key)
        self._move("input_required", now)
        return keys

    def answer(self, responses: Mapping[str, Json], now: float) -> None:
        """Take what answers open questions; other keys are ignored.

        Raises `RpcError` -32602 for an answer that its question cannot have; then none of `responses` is taken.
        """
        known = {key: text for key, text in responses.items() if key in self._open}
        for key, text in known.items():
            if not fits(self._open[key], text):
                raise RpcError(INVALID_PARAMS, f"inputResponses.{key} is no answer to {self._open[key].method}")
        for key, text in known.items():
            del self._open[key]
            self._answers[key] = text
        if known and not self._open:
            self._move("working", now)

    def withdraw(self, keys: Sequence[str], now: float) -> None:
        """Close questions that get no answer."""
        for key in keys:
            self._open.pop(key, None)
        if not self._open:
            self._move("working", now)

    def take(self, keys: Sequence[str]) -> list[Json] | None:
        """Return the answers under `keys` and forget them; None while one is missing."""
        if any(key not in self._answers for key in keys):
            return None
        return [self._answers.pop(key) for key in keys]

    def say(self, message: str, now: float) -> None:
        """Set the status message."""
        if not self.final:
            self.message = message
            self.updated = now

    def complete(self, result: Json, now: float) -> None:
        """End with the result that the call would have had."""
        if self._move("completed", now):
            self.result = result

    def fail(self, error: RpcError, now: float) -> None:
        """End with an error of the protocol."""
        if self._move("failed", now):
            self.error = error
            self.message = error.message

    def cancel(self, now: float) -> bool:
        """End without a result; False where the task had ended already."""
        return self._move("cancelled", now)

    def _move(self, status: TaskStatus, now: float) -> bool:
        if self.final:
            return False
        self.status = status
        self.updated = now
        if self.final:
            self._open.clear()
            self._answers.clear()
        return True


def created_result(task: Task) -> Json:
    """Return the modern CreateTaskResult: the task's fields beside `resultType`."""
    return _encode({"resultType": "task"} | _modern(task))


def detailed(task: Task) -> dict[str, Any]:
    """Return the modern task with what its status brings: open questions, the result, or the error."""
    body = _modern(task)
    if task.questions:
        body["inputRequests"] = {
            key: {"method": question.method, "params": Raw(question.params)} for key, question in task.questions.items()
        }
    if task.result is not None:
        body["result"] = {"resultType": "complete"} | _members(task.result)
    if task.error is not None:
        body["error"] = _error(task.error)
    return body


def legacy(task: Task) -> dict[str, Any]:
    """Return the legacy Task."""
    body = _common(task)
    return body | {"ttl": task.ttl, "pollInterval": task.poll}


def related(task: Task) -> dict[str, Any]:
    """Return the `_meta` that ties a legacy message to its task."""
    return {META_RELATED: {"taskId": task.id}}


def with_related(task: Task, result: Json) -> Json:
    """Return a legacy result that names its task."""
    members = _members(result)
    members.pop("resultType", None)
    return _encode(members | {"_meta": _members(members.get("_meta", b"{}")) | related(task)})


def about(task: Task, question: Question, key: str) -> Question:
    """Return a legacy question that names its task."""
    members = _members(question.params)
    meta = _members(members.get("_meta", b"{}")) | related(task)
    return Question(question.method, _encode(members | {"_meta": meta}), key)


def unknown_task(id: str) -> RpcError:  # noqa: A002 - the field's name
    """Return the error for a task that never was, has expired, or is somebody else's."""
    return RpcError(INVALID_PARAMS, f"Unknown task: {id}", _encode({"taskId": id}))


def not_declared(what: str) -> RpcError:
    """Return -32021 for a modern client that did not declare the extension on this request."""
    data = _encode({"requiredCapabilities": {"extensions": {EXTENSION: {}}}})
    return RpcError(MISSING_CLIENT_CAPABILITY, f"{what}: the client did not declare {EXTENSION}", data)


def _modern(task: Task) -> dict[str, Any]:
    return _common(task) | {"ttlMs": task.ttl, "pollIntervalMs": task.poll}


def _common(task: Task) -> dict[str, Any]:
    body: dict[str, Any] = {"taskId": task.id, "status": task.status}
    if task.message:
        body["statusMessage"] = task.message
    return body | {"createdAt": _iso(task.created), "lastUpdatedAt": _iso(task.updated)}


def _error(error: RpcError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = Raw(error.data)
    return body


def _members(text: Json | Raw) -> dict[str, Any]:
    return dict(msgspec.json.decode(text, type=dict[str, Raw]))


def _iso(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode(body: dict[str, Any]) -> Json:
    return msgspec.json.encode(body)

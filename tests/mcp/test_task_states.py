"""A task's states, whatever happens to it in whatever order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from delta_protocol.mcp import tasks
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.questions import elicit
from delta_protocol.mcp.tasks import Task

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
GOOD = b'{"action":"accept","content":{"name":"Ann"}}'


class TaskMachine(RuleBasedStateMachine):
    """The model: which keys are open, answered and taken, and how the task ended."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.task = Task("t", "me", self.now, 60_000, 500)
        self.open: set[str] = set()
        self.answered: set[str] = set()
        self.seen: set[str] = set()
        self.ended: str | None = None

    def tick(self) -> float:
        self.now += 1
        return self.now

    @rule(count=st.integers(1, 3), key=st.sampled_from(["", "name"]))
    def ask(self, count: int, key: str) -> None:
        if self.ended:
            return
        keys = self.task.ask([elicit("?", FORM, key=key)] * count, self.tick())
        assert self.seen.isdisjoint(keys)
        self.seen.update(keys)
        self.open.update(keys)

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        keys = data.draw(st.sets(st.sampled_from(sorted(self.seen | {"unknown"}))))
        self.task.answer(dict.fromkeys(keys, GOOD), self.tick())
        self.answered |= keys & self.open
        self.open -= keys

    @rule()
    def answer_wrongly(self) -> None:
        before = dict(self.task.questions)
        given = {**dict.fromkeys(self.open, GOOD), **dict.fromkeys(sorted(self.open)[:1], b'{"action":"accept"}')}
        if self.open:
            with pytest.raises(RpcError, match="inputResponses"):
                self.task.answer(given, self.now)
        assert dict(self.task.questions) == before

    @rule()
    def take(self) -> None:
        for key in sorted(self.answered):
            assert self.task.take([key]) == [GOOD]
        assert all(self.task.take([key]) is None for key in self.open)
        self.answered.clear()

    @rule(how=st.sampled_from(["completed", "failed", "cancelled"]))
    def end(self, how: str) -> None:
        now = self.tick()
        if how == "completed":
            self.task.complete(b'{"content":[]}', now)
        elif how == "failed":
            self.task.fail(RpcError(-32603, "broke", b'{"why":1}'), now)
        else:
            assert self.task.cancel(now) is (self.ended is None)
        if self.ended is None:
            self.ended = how
            self.open.clear()
            self.answered.clear()

    @invariant()
    def the_status_says_what_is_so(self) -> None:
        assert self.task.status == (self.ended or ("input_required" if self.open else "working"))
        modern: dict[str, Any] = json.loads(tasks.created_result(self.task))
        shown = json.loads(json.dumps(tasks.detailed(self.task), default=lambda raw: json.loads(bytes(raw))))
        assert modern["resultType"] == "task"
        assert not {"result", "error", "inputRequests", "ttl", "pollInterval"} & modern.keys()
        assert set(shown.get("inputRequests", {})) == self.open
        assert ("result" in shown, "error" in shown) == (self.ended == "completed", self.ended == "failed")
        assert {"ttl", "pollInterval"} <= tasks.legacy(self.task).keys()


TestTaskMachine = TaskMachine.TestCase


def test_a_legacy_result_and_question_name_their_task() -> None:
    task = Task("t1", "me", 0, 1000, 1000)
    result = json.loads(tasks.with_related(task, b'{"resultType":"complete","content":[],"_meta":{"a":1}}'))
    assert result == {"content": [], "_meta": {"a": 1, tasks.META_RELATED: {"taskId": "t1"}}}
    asked = json.loads(tasks.about(task, elicit("?", FORM), "k").params)
    assert asked["_meta"] == {tasks.META_RELATED: {"taskId": "t1"}}
    assert tasks.legacy(task)["createdAt"] == "1970-01-01T00:00:00.000Z"

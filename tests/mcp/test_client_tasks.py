"""Servers whose tasks are odd: the caller gets a typed answer, and never learns that nothing was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from delta_actors.mcp.client_tasks import call_tool
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.errors import ClientCannot, McpError, NoReply, NotSent, RpcError, TaskFailed
from delta_protocol.mcp.versions import Era

CALL = b'{"name":"job","arguments":{}}'
Answers = Callable[[str, dict[str, Any]], Any]


class Server:
    """A session with a server that answers as it is told; an exception is raised."""

    def __init__(self, answers: Answers, era: Era = "modern") -> None:
        self.era: Era = era
        self.capabilities: Json = b'{"tasks":{"requests":{"tools":{"call":{}}}}}'
        self.said: list[str] = []
        self._answers = answers

    async def request(self, method: str, params: Json = b"{}", **_: Any) -> Json:
        await trio.lowlevel.checkpoint()
        self.said.append(method)
        answer = self._answers(method, json.loads(params))
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


def task(status: Any = "working", **more: Any) -> dict[str, Any]:
    return {"resultType": "task", "taskId": "t", "status": status, "ttlMs": 1, **more}


def then(*states: Any) -> Answers:
    """Begin a task and go through `states`; the last stays."""
    left = list(states)

    def answer(method: str, _: dict[str, Any]) -> Any:
        if method == "tools/call":
            return task()
        if method == "tasks/get":
            return left.pop(0) if len(left) > 1 else left[0]
        return {}

    return answer


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([task("completed")], "completed without a result"),
        ([task("failed")], "failed without a result"),
        ([task("cancelled", statusMessage="by hand")], "cancelled: by hand"),
        ([{"status": "completed", "result": {}}], "against the protocol"),
        ([task(7)], "against the protocol"),
        ([RpcError(-32602, "unknown task")], "unknown task"),
        ([RpcError(-32601, "no such method")], "no such method"),
        ([NotSent("gone")], "could not be learnt: gone"),
        ([NoReply("cut")], "could not be learnt: cut"),
    ],
)
async def test_what_is_said_of_a_begun_task_is_never_that_nothing_was_done(
    states: list[Any], words: str, autojump_clock: trio.abc.Clock
) -> None:
    server = Server(then(*states))
    with pytest.raises(NoReply, match=words):
        await call_tool(server, CALL)
    ended = isinstance(states[-1], dict) and states[-1].get("status") in ("completed", "failed", "cancelled")
    cancels = "taskId" not in states[-1] if isinstance(states[-1], dict) and ended else True
    assert ("tasks/cancel" in server.said) == cancels


async def test_the_error_that_ended_a_task_is_the_tasks_own(autojump_clock: trio.abc.Clock) -> None:
    server = Server(then(task("failed", error={"code": -32602, "message": "not this one", "data": [1]})))
    with pytest.raises(TaskFailed, match="not this one") as caught:
        await call_tool(server, CALL)
    assert (caught.value.code, caught.value.data) == (-32602, b"[1]")
    assert "tasks/cancel" not in server.said


async def test_a_task_that_has_ended_when_it_is_created_is_asked_for_its_result() -> None:
    def answer(method: str, _: dict[str, Any]) -> Any:
        return task("completed") if method == "tools/call" else task("completed", result={"content": []})

    server = Server(answer)
    assert json.loads(await call_tool(server, CALL)) == {"content": []}
    assert server.said == ["tools/call", "tasks/get"]


async def test_a_server_that_is_away_for_a_moment_is_asked_again(autojump_clock: trio.abc.Clock) -> None:
    away = [NotSent("starting"), NoReply("cut"), NotSent("starting")]
    server = Server(then(*away, task(), *away, task("completed", result={"content": []})))
    assert json.loads(await call_tool(server, CALL)) == {"content": []}


@pytest.mark.parametrize("said", [-5, 0, 0.001, 1e12, 1e300])
async def test_no_interval_makes_the_client_spin_or_sleep_for_ever(said: float, autojump_clock: trio.abc.Clock) -> None:
    began = trio.current_time()
    server = Server(then(task(pollIntervalMs=said), task("completed", pollIntervalMs=said, result={})))
    await call_tool(server, CALL)
    assert 0.05 <= trio.current_time() - began <= 70


async def test_what_a_task_says_is_told_as_progress(autojump_clock: trio.abc.Clock) -> None:
    told: list[tuple[float, float | None, str]] = []

    async def hear(done: float, total: float | None, message: str) -> None:
        await trio.lowlevel.checkpoint()
        told.append((done, total, message))

    states = [task(statusMessage=words) for words in ("one", "one", "two")]
    await call_tool(Server(then(*states, task("completed", result={}))), CALL, on_progress=hear)
    assert told == [(1, None, "one"), (2, None, "two")]


@pytest.mark.parametrize("refusal", [ClientCannot("elicitation/create", "no"), RpcError(-32601, "no")])
async def test_a_question_that_gets_no_answer_cancels_the_task(
    refusal: McpError, autojump_clock: trio.abc.Clock
) -> None:
    async def refuse(_method: str, _params: Json) -> Json:
        await trio.lowlevel.checkpoint()
        raise refusal

    asks = task("input_required", inputRequests={"q": {"method": "elicitation/create", "params": {}}})
    for answer in (refuse, None):
        server = Server(then(asks))
        with pytest.raises(NoReply, match="elicitation/create"):
            await call_tool(server, CALL, on_task_question=answer)
        assert server.said[-1] == "tasks/cancel"


async def test_a_question_that_is_still_shown_after_its_answer_is_not_asked_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    asked: list[str] = []

    async def answer(method: str, _params: Json) -> Json:
        await trio.lowlevel.checkpoint()
        asked.append(method)
        return b"{}"

    first, second = ({"method": f"m{number}", "params": {}} for number in (1, 2))
    states = [task("input_required", inputRequests=shown) for shown in ({"a": first}, {"a": first, "b": second})]
    server = Server(then(*states, states[1], task("completed", result={})))
    await call_tool(server, CALL, on_task_question=answer)
    assert asked == ["m1", "m2"]
    assert server.said.count("tasks/update") == 2


def legacy(result: Any, created: Any = None) -> Answers:
    def answer(method: str, params: dict[str, Any]) -> Any:
        match method:
            case "tools/call" if "task" not in params:
                return RpcError(-32601, "only as a task")
            case "tools/call":
                return {"task": {"taskId": "t", "status": "working"}} if created is None else created
            case "tasks/result":
                return result
            case _:
                return {}

    return answer


async def test_a_legacy_tool_that_runs_only_as_a_task_is_called_as_one() -> None:
    server = Server(legacy({"content": []}), "legacy")
    assert json.loads(await call_tool(server, CALL)) == {"content": []}
    assert server.said == ["tools/call", "tools/call", "tasks/result"]
    for lost, kind in ((RpcError(-32602, "x"), TaskFailed), (NotSent("x"), NoReply), (NoReply("x"), NoReply)):
        with pytest.raises(kind):
            await call_tool(Server(legacy(lost), "legacy"), CALL)
    with pytest.raises(NoReply, match="against the protocol"):
        await call_tool(Server(legacy({}, created={"content": []}), "legacy"), CALL)


async def test_without_tasks_an_unknown_tool_stays_unknown() -> None:
    server = Server(legacy({}), "legacy")
    server.capabilities = b'{"tasks":{"requests":7}}'
    with pytest.raises(RpcError, match="only as a task"):
        await call_tool(server, CALL)
    assert server.said == ["tools/call"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ("taskId", "status", "statusMessage", "pollIntervalMs", "inputRequests", "result", "error")


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON_VALUES))
def test_no_shape_of_a_task_raises_anything_untyped(shape: dict[str, Any]) -> None:
    async def main() -> None:
        server = Server(then(shape))
        with trio.move_on_after(300):
            try:
                await call_tool(server, CALL)
            except (NoReply, TaskFailed):
                return

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

"""Calls that go on as tasks, in both eras: the handler is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from delta_actors.mcp import (
    DeltaServer,
    RequestContext,
    RpcError,
    ServerSettings,
    TaskLimits,
    ToolResult,
    connect,
    elicit,
)
from delta_protocol.errors import Invalid
from tests.mcp.samples import META, Peer, modern, note, request, served
from tests.mcp.web import site

TASKS = "io.modelcontextprotocol/tasks"
DECLARED = META | {
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {TASKS: {}}},
}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
RELATED = "io.modelcontextprotocol/related-task"


class Handlers:
    def __init__(self) -> None:
        self.begun = trio.Event()
        self.cancelled = trio.Event()
        self.go_on = trio.Event()


def task_server(handlers: Handlers, limits: TaskLimits | None = None) -> DeltaServer:
    server = DeltaServer("tasks", "1", settings=ServerSettings(tasks=limits or TaskLimits(), deadline=5))

    @server.tool(task="optional")
    async def wait(context: RequestContext, first: str = "") -> str:
        if first:
            await trio.sleep_forever() if first == "hang" else None
        begun = await context.begin_task()
        handlers.begun.set()
        await context.progress(1, 2, "half way")
        try:
            await handlers.go_on.wait()
        except trio.Cancelled:
            handlers.cancelled.set()
            raise
        return f"as a task: {begun}"

    @server.tool(task="optional")
    async def ask(context: RequestContext) -> str:
        await context.begin_task()
        (answer,) = await context.ask(elicit("Name?", FORM, key="name"))
        return f"Hello {json.loads(answer)['content']['name']}"

    @server.tool(task="required")
    async def fail(how: str, context: RequestContext) -> ToolResult:
        await context.begin_task()
        if how == "tool":
            raise Invalid("no such label", what="label")
        if how == "rpc":
            raise RpcError(4711, "own code", b'{"x":1}')
        raise ZeroDivisionError("a fault")

    @server.tool()
    def plain() -> str:
        return "plain"

    return server


def call(identity: int, method: str, **params: Any) -> dict[str, Any]:
    return modern(identity, method, **params) | {"params": params | {"_meta": DECLARED}}


async def ended(peer: Peer, task: str, identity: int = 1000) -> dict[str, Any]:
    with trio.fail_after(5):
        while True:
            identity += 1
            found: dict[str, Any] = (await peer.ask(call(identity, "tasks/get", taskId=task)))["result"]
            if found["status"] in ("completed", "failed", "cancelled"):
                return found
            await trio.sleep(0.01)


async def test_a_declaring_client_gets_a_task_that_outlives_its_request() -> None:
    handlers = Handlers()
    async with served(task_server(handlers)) as peer:
        discovered = (await peer.ask(call(1, "server/discover")))["result"]["capabilities"]
        assert discovered["extensions"] == {TASKS: {}}
        assert "tasks" not in discovered
        created = (await peer.ask(call(2, "tools/call", name="wait", arguments={})))["result"]
        assert (created["resultType"], created["status"]) == ("task", "working")
        working = (await peer.ask(call(3, "tasks/get", taskId=created["taskId"])))["result"]
        assert (working["resultType"], working["statusMessage"]) == ("complete", "half way")
        handlers.go_on.set()
        done = await ended(peer, created["taskId"])
        assert done["result"]["content"] == [{"type": "text", "text": "as a task: True"}]
        assert done["lastUpdatedAt"] >= done["createdAt"]


async def test_a_client_that_declares_nothing_gets_the_result_or_is_told_what_is_needed() -> None:
    handlers = Handlers()
    handlers.go_on.set()
    async with served(task_server(handlers)) as peer:
        answer = await peer.ask(modern(1, "tools/call", name="wait", arguments={}))
        assert answer["result"]["content"][0]["text"] == "as a task: False"
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        refused = [
            modern(2, "tools/call", name="fail", arguments={"how": "tool"}),
            modern(3, "tasks/get", taskId="x"),
            modern(4, "tasks/cancel", taskId="x"),
            modern(5, "subscriptions/listen", notifications={"taskIds": ["x"]}),
        ]
        for message in refused:
            error = (await peer.ask(message))["error"]
            assert (error["code"], error["data"]) == (-32021, needed)


@pytest.mark.parametrize(
    ("how", "status", "shown"),
    [
        ("tool", "completed", {"isError": True}),
        ("rpc", "failed", {"code": 4711, "message": "own code", "data": {"x": 1}}),
        ("bug", "completed", {"isError": True}),
    ],
)
async def test_a_tools_failure_is_a_result_and_a_protocol_error_is_none(
    how: str, status: str, shown: dict[str, Any]
) -> None:
    async with served(task_server(Handlers())) as peer:
        created = (await peer.ask(call(1, "tools/call", name="fail", arguments={"how": how})))["result"]
        done = await ended(peer, created["taskId"])
        assert done["status"] == status
        found = done["result"] if status == "completed" else done["error"]
        assert {key: found[key] for key in shown} == shown
        assert ("result" in done) != ("error" in done)


async def test_a_question_waits_in_the_task_until_it_is_answered() -> None:
    async with served(task_server(Handlers())) as peer:
        task = (await peer.ask(call(1, "tools/call", name="ask", arguments={})))["result"]["taskId"]
        with trio.fail_after(5):
            while "inputRequests" not in (found := (await peer.ask(call(2, "tasks/get", taskId=task)))["result"]):
                await trio.sleep(0.01)
        ((key, asked),) = found["inputRequests"].items()
        assert (found["status"], asked["method"]) == ("input_required", "elicitation/create")
        wrong = await peer.ask(call(3, "tasks/update", taskId=task, inputResponses={key: {"action": "accept"}}))
        assert wrong["error"]["code"] == -32602
        right = {"x": {}, key: {"action": "accept", "content": {"name": "Ann"}}}
        acknowledged = (await peer.ask(call(4, "tasks/update", taskId=task, inputResponses=right)))["result"]
        assert acknowledged.keys() == {"resultType", "_meta"}
        assert (await ended(peer, task))["result"]["content"][0]["text"] == "Hello Ann"


async def test_a_cancelled_task_ends_its_handler_and_stays_cancelled() -> None:
    handlers = Handlers()
    async with served(task_server(handlers)) as peer:
        task = (await peer.ask(call(1, "tools/call", name="wait", arguments={})))["result"]["taskId"]
        for identity in (2, 3):
            answer = (await peer.ask(call(identity, "tasks/cancel", taskId=task)))["result"]
            assert answer.keys() == {"resultType", "_meta"}
        with trio.fail_after(5):
            await handlers.cancelled.wait()
        assert (await ended(peer, task))["status"] == "cancelled"


async def test_a_request_that_is_cancelled_before_it_began_a_task_cancels_its_handler() -> None:
    async with served(task_server(Handlers())) as peer:
        await peer.say(call(1, "tools/call", name="wait", arguments={"first": "hang"}))
        await peer.say(note("notifications/cancelled", requestId=1))
        assert "result" in await peer.ask(call(2, "tools/call", name="plain", arguments={}))


async def test_tasks_expire_and_are_bounded() -> None:
    async with served(task_server(Handlers(), TaskLimits(ttl=0.2, count=1))) as peer:
        task = (await peer.ask(call(1, "tools/call", name="wait", arguments={})))["result"]["taskId"]
        assert (await peer.ask(call(2, "tools/call", name="wait", arguments={})))["error"]["code"] == 42901
        with trio.fail_after(5):
            while "result" in (answer := await peer.ask(call(3, "tasks/get", taskId=task))):
                await trio.sleep(0.05)
        assert (answer["error"]["code"], answer["error"]["data"]) == (-32602, {"taskId": task})
        assert "result" in await peer.ask(call(4, "tools/call", name="wait", arguments={}))


async def test_a_stream_hears_what_becomes_of_the_tasks_it_asked_for() -> None:
    handlers = Handlers()
    async with served(task_server(handlers)) as peer:
        mine, other = [
            (await peer.ask(call(number, "tools/call", name="wait", arguments={})))["result"]["taskId"]
            for number in (1, 2)
        ]
        acknowledged = await peer.ask(call(3, "subscriptions/listen", notifications={"taskIds": [mine]}))
        assert acknowledged["params"]["notifications"] == {"taskIds": [mine]}
        await peer.ask(call(4, "tasks/cancel", taskId=other))
        handlers.go_on.set()
        heard = await peer.hear()
        assert (heard["method"], heard["params"]["taskId"]) == ("notifications/tasks", mine)
        assert heard["params"]["status"] == "completed"
        assert heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 3


async def begin_legacy(peer: Peer) -> dict[str, Any]:
    answer = await peer.ask(request(0, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}}))
    await peer.say(note("notifications/initialized"))
    capabilities: dict[str, Any] = answer["result"]["capabilities"]
    return capabilities


async def test_a_legacy_client_asks_for_a_task_and_waits_for_its_result() -> None:
    handlers = Handlers()
    async with served(task_server(handlers)) as peer:
        assert (await begin_legacy(peer))["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        listed = (await peer.ask(request(1, "tools/list")))["result"]["tools"]
        support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in listed}
        assert support == {"wait": "optional", "ask": "optional", "fail": "required", "plain": None}
        created = await peer.ask(request(2, "tools/call", name="wait", arguments={}, task={"ttl": 5000}))
        task = created["result"]["task"]
        assert (task["status"], task["ttl"]) == ("working", 5000)
        assert [each["taskId"] for each in (await peer.ask(request(3, "tasks/list")))["result"]["tasks"]] == [
            task["taskId"]
        ]
        await peer.say(request(4, "tasks/result", taskId=task["taskId"]))
        handlers.go_on.set()
        result = (await peer.hear())["result"]
        assert result["content"][0]["text"] == "as a task: True"
        assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
        again = await peer.ask(request(5, "tasks/cancel", taskId=task["taskId"]))
        assert again["error"]["code"] == -32602


async def test_a_legacy_client_is_asked_by_the_request_for_the_result() -> None:
    async with served(task_server(Handlers())) as peer:
        await begin_legacy(peer)
        created = await peer.ask(request(1, "tools/call", name="ask", arguments={}, task={}))
        task = created["result"]["task"]["taskId"]
        question = await peer.ask(request(2, "tasks/result", taskId=task))
        assert question["method"] == "elicitation/create"
        assert question["params"]["_meta"][RELATED] == {"taskId": task}
        waiting = (await peer.ask(request(3, "tasks/get", taskId=task)))["result"]
        assert waiting["status"] == "input_required"
        accepted = {"action": "accept", "content": {"name": "Bob"}}
        done = await peer.ask({"jsonrpc": "2.0", "id": question["id"], "result": accepted})
        assert done["result"]["content"][0]["text"] == "Hello Bob"


async def test_a_legacy_call_that_does_not_fit_a_tools_support_does_not_exist() -> None:
    async with served(task_server(Handlers())) as peer:
        await begin_legacy(peer)
        refused = [
            request(1, "tools/call", name="fail", arguments={"how": "tool"}),
            request(2, "tools/call", name="plain", arguments={}, task={}),
            request(3, "tasks/update", taskId="x", inputResponses={}),
        ]
        for message in refused:
            assert (await peer.ask(message))["error"]["code"] == -32601


async def test_over_http_the_task_is_its_principals_and_named_in_the_header() -> None:
    handlers = Handlers()
    async with site(task_server(handlers)) as web:
        message = call(1, "tools/call", name="wait", arguments={})
        task = (await web.modern(message)).json()["result"]["taskId"]
        handlers.go_on.set()
        unnamed = await web.modern(call(2, "tasks/get", taskId=task))
        assert (unnamed.status_code, unnamed.json()["error"]["code"]) == (400, -32020)
        named = await web.modern(call(3, "tasks/get", taskId=task), {"mcp-name": task})
        assert named.json()["result"]["taskId"] == task
        unknown = await web.modern(call(4, "tasks/result", taskId=task))
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, -32601)


async def test_a_task_that_ended_makes_room_and_one_principal_cannot_take_it_all() -> None:
    async with served(task_server(Handlers(), TaskLimits(count=3, each=2))) as peer:
        first = (await peer.ask(call(1, "tools/call", name="fail", arguments={"how": "tool"})))["result"]["taskId"]
        with trio.fail_after(5):
            while (await peer.ask(call(2, "tasks/get", taskId=first)))["result"]["status"] != "completed":
                await trio.sleep(0.01)
        kept = [
            (await peer.ask(call(number, "tools/call", name="wait", arguments={})))["result"]["taskId"]
            for number in (3, 4)
        ]
        assert (await peer.ask(call(5, "tasks/get", taskId=first)))["error"]["code"] == -32602
        assert (await peer.ask(call(6, "tools/call", name="wait", arguments={})))["error"]["code"] == 42901
        for task in kept:
            assert (await peer.ask(call(7, "tasks/get", taskId=task)))["result"]["status"] == "working"


async def test_a_ttl_beyond_all_numbers_is_the_longest_there_is() -> None:
    async with served(task_server(Handlers(), TaskLimits(ttl=60))) as peer:
        await begin_legacy(peer)
        created = await peer.ask(request(1, "tools/call", name="wait", arguments={}, task={"ttl": 10**400}))
        assert created["result"]["task"]["ttl"] == 60_000


async def test_who_waits_beside_a_client_that_left_is_asked_in_its_place() -> None:
    async with served(task_server(Handlers())) as peer:
        await begin_legacy(peer)
        created = await peer.ask(request(1, "tools/call", name="ask", arguments={}, task={}))
        task = created["result"]["task"]["taskId"]
        await peer.ask(request(2, "tasks/result", taskId=task))
        await peer.say(request(3, "tasks/result", taskId=task))
        question = await peer.ask(note("notifications/cancelled", requestId=2))
        while question.get("method") != "elicitation/create":
            question = await peer.hear()
        accepted = {"action": "accept", "content": {"name": "Bob"}}
        done = await peer.ask({"jsonrpc": "2.0", "id": question["id"], "result": accepted})
        assert (done["id"], done["result"]["content"][0]["text"]) == (3, "Hello Bob")


async def test_who_stops_following_a_task_cancels_it() -> None:
    handlers = Handlers()
    async with site(task_server(handlers)) as web, connect(web.url) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait", b"{}")
            with trio.fail_after(10):
                await handlers.begun.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await handlers.cancelled.wait()

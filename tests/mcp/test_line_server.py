"""DeltaServer over newline-delimited JSON, both eras, spoken to by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_actors.mcp import ServerSettings
from delta_actors.mcp.message_session import LineLimits
from tests.mcp.samples import Log, modern, note, request, sample_server, served


async def test_a_legacy_session_begins_lists_and_calls() -> None:
    async with served(sample_server(Log())) as peer:
        await peer.begin()
        tools = (await peer.ask(request(1, "tools/list")))["result"]
        assert tools["tools"][0]["name"] == "add"
        assert "resultType" not in tools
        answer = await peer.ask(request(2, "tools/call", name="add", arguments={"a": 1917043659912705296, "b": 1}))
        assert answer["result"]["structuredContent"] == {"result": 1917043659912705297}
        assert (await peer.ask(request("p", "ping")))["result"] == {}


async def test_a_modern_request_needs_no_handshake_and_its_result_says_its_type() -> None:
    async with served(sample_server(Log())) as peer:
        found = (await peer.ask(modern(1, "server/discover")))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "sample"
        tools = (await peer.ask(modern(2, "tools/list", cursor=None)))["result"]
        assert tools["ttlMs"] == 0
        answer = (await peer.ask(modern(3, "tools/call", name="add", arguments={"a": 1, "b": 2})))["result"]
        assert (answer["resultType"], "ttlMs" in answer) == ("complete", False)


async def test_a_probe_may_be_followed_by_the_legacy_handshake() -> None:
    async with served(sample_server(Log())) as peer:
        await peer.say(note("notifications/initialized"))
        await peer.ask(modern(1, "server/discover"))
        await peer.begin()
        assert "result" in await peer.ask(request(2, "tools/list"))
        assert "result" in await peer.ask(modern(3, "tools/list"))


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
async def test_a_known_legacy_version_is_answered_with_itself(version: str) -> None:
    async with served(sample_server(Log())) as peer:
        answer = await peer.ask(request(1, "initialize", protocolVersion=version, capabilities={}))
        assert answer["result"]["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2026-07-28", "2024-01-01"])
async def test_initialize_never_agrees_on_a_version_without_a_handshake(version: str) -> None:
    async with served(sample_server(Log())) as peer:
        answer = await peer.ask(request(1, "initialize", protocolVersion=version, capabilities={}))
        assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"junk", -32700),
        (b"[]", -32600),
        (b"x" * 2000, -32600),
        (request(1, "tools/list"), -32600),
        (request(1, "initialize", capabilities={}), -32602),
        (request(1, "server/discover"), -32602),
        (modern(1, "initialize", protocolVersion="2025-11-25"), -32601),
        (modern(1, "ping"), -32601),
        (modern(1, "logging/setLevel"), -32601),
        (modern(1, "resources/list"), -32601),
        (modern(1, "tools/list", {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}), -32022),
        (modern(1, "tools/list", {"io.modelcontextprotocol/protocolVersion": 7}), -32600),
        (modern(1, "tools/list", {"io.modelcontextprotocol/clientCapabilities": 7}), -32602),
        (modern(1, "tools/list", cursor="x"), -32602),
        (modern(1, "tools/call", name="nothing"), -32602),
        (modern(1, "tools/call"), -32602),
        (modern(1, "tools/call", name=7), -32602),
        (modern(1, "tools/call", name="add", arguments=[1]), -32602),
        (modern(1, "tools/call", name="fail", arguments={"kind": "rpc"}), 4711),
        (modern(1, "tools/call", name="fail", arguments={"kind": "overloaded"}), 42901),
    ],
)
async def test_each_fault_has_its_code_and_the_session_goes_on(message: Any, code: int) -> None:
    server = sample_server(Log(), ServerSettings(lines=LineLimits(max_line=1000)))
    async with served(server) as peer:
        answer = await peer.ask(message)
        assert answer["error"]["code"] == code
        assert answer["id"] == (message["id"] if isinstance(message, dict) else None)
        assert "result" in await peer.ask(modern(2, "tools/list"))


async def test_missing_meta_keys_are_named_and_versions_are_offered() -> None:
    async with served(sample_server(Log())) as peer:
        answer = await peer.ask(modern(1, "x", {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}))
        assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
        message = request(2, "x", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})
        assert "clientCapabilities" in (await peer.ask(message))["error"]["message"]


async def test_what_a_function_raises_is_its_result_without_a_traceback() -> None:
    """spec 1.10, CS-03-07."""
    async with served(sample_server(Log())) as peer:
        answer = await peer.ask(modern(1, "tools/call", name="fail", arguments={"kind": "other"}))
        assert answer["result"]["content"] == [{"type": "text", "text": "message of the handler"}]
        assert answer["result"]["isError"] is True


@pytest.mark.parametrize("kind", ["invalid", "group"])
async def test_a_failure_inside_a_tool_is_a_result_that_a_model_can_read(kind: str) -> None:
    async with served(sample_server(Log())) as peer:
        answer = await peer.ask(modern(1, "tools/call", name="fail", arguments={"kind": kind}))
        assert answer["result"]["isError"] is True
        answer = await peer.ask(modern(2, "tools/call", name="add", arguments={"a": "x", "b": 1}))
        assert "\nwrong: a: " in answer["result"]["content"][0]["text"]


async def test_progress_has_the_clients_own_token_and_only_grows() -> None:
    """acceptance 47."""
    async with served(sample_server(Log())) as peer:
        await peer.say(modern(1, "tools/call", {"progressToken": 2**60 + 1}, name="steps", arguments={"to": 4}))
        heard = [await peer.hear() for _ in range(5)]
        assert [message["params"]["progress"] for message in heard[:-1]] == [1, 2, 3, 4]
        assert {message["params"]["progressToken"] for message in heard[:-1]} == {2**60 + 1}
        answer = await peer.ask(modern(2, "tools/call", name="steps", arguments={"to": 4}))
        assert answer["id"] == 2


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_cancelled_request_stops_and_is_not_answered(era: str) -> None:
    log = Log()
    make = modern if era == "modern" else request
    async with served(sample_server(log)) as peer:
        await peer.begin()
        await peer.say(make("slow", "tools/call", name="wait", arguments={}), note("x"))
        await peer.say(note("notifications/cancelled", requestId="other"))
        await peer.say(note("notifications/cancelled", requestId="slow", reason="changed my mind"))
        with trio.fail_after(30):
            await log.cancelled.wait()
        assert (await peer.ask(make(2, "tools/list")))["id"] == 2


async def test_cancellation_sees_the_kind_of_an_id() -> None:
    log = Log()
    async with served(sample_server(log)) as peer:
        await peer.say(modern(1, "tools/call", name="echo", arguments={"text": "one", "delay": 0.2}))
        await peer.say(note("notifications/cancelled", requestId="1"), note("notifications/cancelled", requestId=True))
        await peer.say(note("notifications/cancelled"), note("notifications/cancelled", requestId=None))
        assert (await peer.hear())["result"]["content"][0]["text"] == "one"


async def test_requests_run_side_by_side_and_an_id_in_use_is_refused() -> None:
    async with served(sample_server(Log())) as peer:
        await peer.say(modern(1, "tools/call", name="echo", arguments={"text": "slow", "delay": 0.3}))
        refused = await peer.ask(modern(1, "tools/list"))
        assert refused["error"]["code"] == -32600
        assert (await peer.ask(modern(2, "tools/call", name="echo", arguments={"text": "fast"})))["id"] == 2
        assert (await peer.hear())["result"]["content"][0]["text"] == "slow"


async def test_more_requests_than_allowed_are_told_so() -> None:
    server = sample_server(Log(), ServerSettings(lines=LineLimits(max_in_flight=2)))
    async with served(server) as peer:
        for number in (1, 2):
            await peer.say(modern(number, "tools/call", name="wait", arguments={}))
        assert (await peer.ask(modern(3, "tools/list")))["error"]["code"] == 42901
        await peer.say(note("notifications/cancelled", requestId=1))
        while "error" in await peer.ask(modern(4, "tools/list")):
            await trio.sleep(0.01)


async def test_the_deadline_ends_a_request_and_the_client_hears_it() -> None:
    log = Log()
    async with served(sample_server(log, ServerSettings(deadline=0.1))) as peer:
        answer = await peer.ask(modern(1, "tools/call", name="wait", arguments={}))
        assert answer["error"]["code"] == 42902
        assert log.cancelled.is_set()


async def test_changed_tools_are_told_to_whoever_wants_to_hear_it_once_for_many_changes() -> None:
    """acceptance 49."""
    server = sample_server(Log())
    async with served(server) as peer:
        await peer.begin()
        await peer.say(modern("sub", "subscriptions/listen", notifications={"toolsListChanged": True, "x": True}))
        acknowledged = await peer.hear()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        for _ in range(100):
            server.tools_changed()
        heard = [await peer.hear(), await peer.hear()]
        assert {message["method"] for message in heard} == {"notifications/tools/list_changed"}
        subscribed = [message for message in heard if message.get("params")]
        assert subscribed[0]["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "sub"}
        await peer.say(note("notifications/cancelled", requestId="sub"))
        assert (await peer.ask(request(5, "ping")))["id"] == 5


async def test_a_legacy_client_is_asked_by_requests_of_the_server() -> None:
    """acceptance 51."""
    async with served(sample_server(Log())) as peer:
        await peer.begin()
        question = await peer.ask(request(1, "tools/call", name="greet", arguments={}))
        assert question["method"] == "elicitation/create"
        await peer.say({"jsonrpc": "2.0", "id": "forged", "result": {}})
        answer = {"action": "accept", "content": {"name": "Ada"}}
        question = await peer.ask({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert question["method"] == "roots/list"
        roots = {"roots": [{"uri": "file:///home"}]}
        done = await peer.ask({"jsonrpc": "2.0", "id": question["id"], "result": roots})
        assert done["result"]["content"][0]["text"] == "Hello Ada of file:///home"


async def test_a_client_that_cannot_is_not_asked() -> None:
    async with served(sample_server(Log())) as peer:
        plain: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {}}
        answer = await peer.ask(modern(1, "tools/call", plain, name="greet", arguments={}))
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        await peer.ask(request(2, "initialize", protocolVersion="2025-11-25", capabilities={}))
        answer = await peer.ask(request(3, "tools/call", name="greet", arguments={}))
        assert answer["result"]["isError"] is True


async def answered_rounds(peer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Carry `greet` to its second question; return the first and second results."""
    first = (await peer.ask(modern(1, "tools/call", name="greet", arguments={})))["result"]
    answers = {"q1": {"action": "accept", "content": {"name": "Ada"}}, "unasked": {}}
    state = first["requestState"]
    message = modern(2, "tools/call", name="greet", arguments={}, inputResponses=answers, requestState=state)
    return first, (await peer.ask(message))["result"]


async def test_a_modern_client_is_asked_by_results_and_the_handler_runs_again() -> None:
    """acceptance 51."""
    async with served(sample_server(Log())) as peer:
        first, second = await answered_rounds(peer)
        assert first["resultType"] == second["resultType"] == "input_required"
        assert first["inputRequests"]["q1"]["method"] == "elicitation/create"
        assert second["inputRequests"] == {"q2": {"method": "roots/list"}}
        answers = {"q2": {"roots": [{"uri": "file:///home"}]}}
        message = modern(
            3, "tools/call", name="greet", arguments={}, inputResponses=answers, requestState=second["requestState"]
        )
        done = (await peer.ask(message))["result"]
        assert (done["resultType"], done["content"][0]["text"]) == ("complete", "Hello Ada of file:///home")


async def test_state_that_was_changed_used_or_is_anothers_is_refused() -> None:
    """acceptance 52."""
    async with served(sample_server(Log())) as peer:
        first, second = await answered_rounds(peer)
        state = second["requestState"]
        for number, (given_state, arguments) in enumerate(
            [(first["requestState"], {}), (state[:-2] + "AA", {}), ("x", {}), (state, {"other": 1})]
        ):
            message = modern(10 + number, "tools/call", name="greet", arguments=arguments, requestState=given_state)
            assert (await peer.ask(message))["error"]["code"] == -32602
        message = modern(20, "tools/call", name="greet", arguments={}, requestState=state, inputResponses=[])
        assert (await peer.ask(message))["error"]["code"] == -32602


async def test_a_missing_answer_is_asked_for_again() -> None:
    async with served(sample_server(Log())) as peer:
        first = (await peer.ask(modern(1, "tools/call", name="greet", arguments={})))["result"]
        for number, answers in enumerate([{}, {"wrong": {}}, {"q1": "no object"}]):
            message = modern(
                2 + number,
                "tools/call",
                name="greet",
                arguments={},
                inputResponses=answers,
                requestState=first["requestState"],
            )
            first = (await peer.ask(message))["result"]
            assert "q1" in first["inputRequests"]


async def test_what_came_before_the_end_of_input_is_still_answered() -> None:
    async with served(sample_server(Log())) as peer:
        await peer.say(modern(1, "tools/call", name="echo", arguments={"text": "late", "delay": 0.2}))
        await peer.hang_up()
        assert (await peer.hear())["result"]["content"][0]["text"] == "late"
        with pytest.raises(EOFError):
            await peer.hear()


async def test_the_end_of_input_ends_what_does_not_finish() -> None:
    log = Log()
    async with served(sample_server(log, ServerSettings(lines=LineLimits(drain=0.1)))) as peer:
        await peer.say(modern(1, "tools/call", name="wait", arguments={}), modern(2, "subscriptions/listen"))
        await peer.hear()
        await peer.hang_up()
        with trio.fail_after(30):
            await log.cancelled.wait()


LINES = st.lists(
    st.binary(max_size=80)
    | st.sampled_from(
        [
            json.dumps(message).encode()
            for message in (
                request(1, "initialize", protocolVersion=3),
                request(1, "initialize", protocolVersion="2025-11-25", capabilities=[1], clientInfo="x"),
                request(2, "tools/call", name="add", arguments={}, _meta=5),
                request(2, "tools/call", name="add", arguments={}, _meta={"progressToken": {}}),
                modern(3, "tools/call", {"io.modelcontextprotocol/clientInfo": 5, "traceparent": 5}, name=[]),
                modern(4, "subscriptions/listen", notifications=[1]),
                note("notifications/cancelled", requestId={}),
                note("notifications/progress", progressToken=[]),
                {"jsonrpc": "2.0", "id": 9, "result": {}},
                {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
            )
        ]
    ),
    max_size=8,
)


@given(LINES)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
def test_hostile_input_never_ends_a_session(lines: list[bytes]) -> None:
    async def talk() -> None:
        async with served(sample_server(Log())) as peer:
            for line in lines:
                await peer.say(line)
            await peer.say(b"\n" + json.dumps(modern("last", "tools/list")).encode())
            while (await peer.hear()).get("id") != "last":
                pass

    trio.run(talk)

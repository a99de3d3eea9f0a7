"""Deadlines, progress and cancellation of calls."""

import sys
from pathlib import Path

import httpx
import trio

from delta_protocol.config import ConnectorConfig, HttpConfig, LimitsConfig, StackConfig
from delta_protocol.wire.message import Role
from tests.gateway.house import open_house, tickets
from tests.mcp.samples import modern
from tests.mcp.web import events, routing


async def test_a_program_past_the_deadline_is_answered_in_time_and_changes_nothing(tmp_path: Path) -> None:
    config = StackConfig(
        connectors={"tickets": tickets(tmp_path)}, limits=LimitsConfig(request_deadline=8, answer_tokens=2000)
    )
    async with open_house(tmp_path, config) as house, house.client() as client:
        await client.call("delta_read", refs=["tickets"])
        code = 'const t = await tickets.ticket.get("T-1"); t.status = "closed"; await sleep(60000);'
        answer = await client.call("delta", code=code)
        assert answer.is_error
        assert answer.structured["error"]["kind"] in ("deadline", "limit")
        after = await client.call("delta", code='return (await tickets.get_ticket({id: "T-1"})).status;')
        assert after.structured["returned"] == "open"


async def test_a_connector_that_never_starts_ends_at_the_deadline_with_its_name(tmp_path: Path) -> None:
    stuck = ConnectorConfig(command=sys.executable, args=("-c", "import time; time.sleep(600)"))
    config = StackConfig(connectors={"stuck": stuck}, limits=LimitsConfig(request_deadline=3))
    async with open_house(tmp_path, config) as house, house.client() as client:
        answer = await client.call("delta", code="return await stuck.anything({});")
        assert answer.is_error
        assert "starting" in answer.text
        assert answer.structured["error"]["kind"] == "deadline"


# acceptance 47
async def test_progress_is_told_under_the_clients_own_token_and_only_grows(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)})
    async with open_house(tmp_path, config) as house, house.client() as client:
        arguments = {"code": 'return (await tickets.get_ticket({id: "T-1"})).title;'}
        params = {"name": "delta", "arguments": arguments, "_meta": {"progressToken": "mine/1"}}
        reply = await client.ask("tools/call", params)
        assert reply["result"]["structuredContent"]["returned"] == "Login broken"
        told = [note["params"] for note in client.notifications if note["method"] == "notifications/progress"]
        assert told
        assert {note["progressToken"] for note in told} == {"mine/1"}
        values = [note["progress"] for note in told]
        assert values == sorted(set(values))
        await client.call("delta", **arguments)
        later = [note for note in client.notifications if note["method"] == "notifications/progress"]
        assert len(later) == len(told)


async def test_a_cancelled_program_is_not_answered_and_leaves_room_for_the_next(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)})
    async with open_house(tmp_path, config) as house, house.client() as client:
        await client.call("delta_read", refs=["tickets"])
        code = 'const t = await tickets.ticket.get("T-1"); t.status = "closed"; await sleep(60000);'
        number = await client.begin("tools/call", {"name": "delta", "arguments": {"code": code}})
        await trio.sleep(0.5)
        await client.tell("notifications/cancelled", {"requestId": number, "reason": "changed my mind"})
        after = await client.call("delta", code='return (await tickets.get_ticket({id: "T-1"})).status;')
        assert after.structured["returned"] == "open"
        assert number not in client.answers


async def test_a_journal_that_died_gives_a_typed_answer_and_then_works_again(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)})
    async with open_house(tmp_path, config) as house, house.client() as client:
        await client.call("delta_read", refs=["tickets"])
        for role in (Role.JOURNAL, Role.SANDBOX, Role.REGISTRY, Role.RESULTS):
            house.system.kill(role)
            answer = await client.call("delta", code="return 'x '.repeat(40000).length;")
            assert answer.is_error or answer.structured["returned"] == 80000
            with trio.fail_after(30):
                while (await client.call("delta", code="return 1;")).is_error:
                    await trio.sleep(0.1)


async def test_a_long_answer_over_http_becomes_a_stream_as_soon_and_as_lively_as_configured(tmp_path: Path) -> None:
    config = StackConfig(http=HttpConfig(patience=0.05, keep_alive=0.05))
    async with open_house(tmp_path, config) as house, httpx.AsyncClient(timeout=60) as http:
        code = "await sleep(600); return 1"
        message = modern(1, "tools/call", name="delta_read", arguments={"code": code})
        answer = await http.post(house.url, json=message, headers=routing(message))
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text.count("\n:") + answer.text.startswith(":") >= 3
    assert events(answer)[-1]["result"]["structuredContent"]["returned"] == 1

"""A connector's questions reach the client whose call caused them, in all four pairs of eras (acceptance 51, 52)."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from delta_actors.mcp import DeltaClient, HttpParameters, RpcError, open_http
from delta_protocol.config import ConnectorConfig, StackConfig
from delta_protocol.jsonrpc import Json
from tests.gateway.house import House, open_house

ASKER = Path(__file__).parent / "connectors" / "asker.py"
ABLE = b'{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}'
Era = Literal["legacy", "modern"]


@asynccontextmanager
async def asking(state: Path, back: str, **settings: Any) -> AsyncIterator[House]:
    arguments = (str(ASKER), back, str(state / "notes"))
    given = {"expose": "tools", "session": "conversation", **settings}
    connector = ConnectorConfig(command=sys.executable, args=arguments, **given)
    async with open_house(state, StackConfig(connectors={"asker": connector})) as house:
        with trio.fail_after(30):
            while not await _settled(house):
                await trio.sleep(0.02)
        yield house


async def _settled(house: House) -> bool:
    """Whether all is known that the connector has."""
    async with open_http(HttpParameters(house.url, era="modern")) as client:
        if len(await client.list_tools()) < 4 or not {"prompts", "logging"} <= set(json.loads(client.capabilities)):
            return False
        return bool(json.loads(await client.request("prompts/list"))["prompts"])


@asynccontextmanager
async def client_of(house: House, era: Era, capabilities: bytes = ABLE) -> AsyncIterator[DeltaClient]:
    async with open_http(HttpParameters(house.url, era=era, capabilities=capabilities)) as client:
        yield client


class Person:
    """Who answers for a client, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    async def answer(self, method: str, params: Json) -> Json:
        await trio.lowlevel.checkpoint()
        body = json.loads(params)
        self.asked.append((method, body))
        match method:
            case "elicitation/create" if body.get("mode") == "url":
                return b'{"action":"accept"}'
            case "elicitation/create":
                name = "Ada" if "name" in body["message"] else "Turin"
                return json.dumps({"action": "accept", "content": {"name": name}}).encode()
            case "sampling/createMessage":
                return b'{"role":"assistant","content":{"type":"text","text":"forty-two"},"model":"m"}'
            case _:
                return b'{"roots":[{"uri":"file:///home"}]}'


async def said(client: DeltaClient, tool: str, person: Person, **arguments: Any) -> str:
    with trio.fail_after(30):
        reply = await client.call_tool(tool, json.dumps(arguments).encode(), on_question=person.answer)
    result = json.loads(reply.result)
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_every_kind_of_question_is_answered(front: Era, back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back) as house, client_of(house, front) as client:
        person = Person()
        assert await said(client, "greet", person, greeting="Hi") == "Hi Ada of Turin"
        assert [body["message"] for _, body in person.asked] == ["asker asks: Your name?", "asker asks: Your place?"]
        assert await said(client, "think", person) == "forty-two"
        assert await said(client, "where", person) == "file:///home"
        assert await said(client, "open_page", person) == "accept"
        assert person.asked[-1][1]["message"] == "asker asks: Please look"
        assert ("elicitationId" in person.asked[-1][1]) == (front == "legacy")
        if back == "legacy":
            assert (tmp_path / "notes").read_text().split() == ["greet"], "a call that waits is made once"


@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_what_is_asked_at_once_is_answered_at_once(front: Era, back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back) as house, client_of(house, front) as client:
        person = Person()
        assert await said(client, "both", person) == "Ada in file:///home"
        assert len(person.asked) == 2
        if front == "modern":
            first = await ask(client, "tools/call", name="both")
            assert len(first["inputRequests"]) == 2


@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_a_client_that_cannot_answer_gives_the_connector_an_error_at_once(
    front: Era, back: str, tmp_path: Path
) -> None:
    async with asking(tmp_path, back) as house, client_of(house, front, b"{}") as client:
        with trio.fail_after(10):
            if (front, back) == ("modern", "modern"):
                with pytest.raises(RpcError) as caught:
                    await client.call_tool("think", b"{}")
                assert caught.value.code == -32021
            else:
                assert (await client.call_tool("think", b"{}")).is_error
        assert await said(client, "get_token", Person(), token="t", delay=0) == "t"


async def ask(client: DeltaClient, method: str, **params: Any) -> Any:
    return json.loads(await client.request(method, json.dumps(params).encode()))


@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_a_prompt_may_ask_too(back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back) as house, client_of(house, "modern") as client:
        first = await ask(client, "prompts/get", name="ask_first")
        assert first["resultType"] == "input_required"
        (key,) = first["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
        given = {"name": "ask_first", "inputResponses": answers, "requestState": first["requestState"]}
        assert (await ask(client, "prompts/get", **given))["messages"][0]["content"]["text"] == "for Ada"


# acceptance 52
@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_a_state_is_good_for_its_own_request_once(back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back) as house, client_of(house, "modern") as client:
        first = await ask(client, "tools/call", name="where")
        state, (key,) = first["requestState"], first["inputRequests"]
        answers = {key: {"roots": [{"uri": "file:///a"}]}}
        for wrong in (
            {"name": "where", "requestState": state[:-2] + ("AA" if state[-2:] != "AA" else "BB")},
            {"name": "think", "requestState": state},
        ):
            with pytest.raises(RpcError) as caught:
                await ask(client, "tools/call", **wrong, inputResponses=answers)
            assert caught.value.code == -32602
        good = {"name": "where", "inputResponses": answers, "requestState": state}
        done = await ask(client, "tools/call", **good)
        assert done["content"][0]["text"] == "file:///a"
        with pytest.raises(RpcError) as caught:
            await ask(client, "tools/call", **good)
        assert caught.value.code == -32602


async def test_an_answer_that_the_question_cannot_have_is_asked_for_again(tmp_path: Path) -> None:
    async with asking(tmp_path, "legacy") as house, client_of(house, "modern") as client:
        first = await ask(client, "tools/call", name="where")
        (key,) = first["inputRequests"]
        again = await ask(
            client, "tools/call", name="where", inputResponses={key: {}}, requestState=first["requestState"]
        )
        assert again["inputRequests"] == first["inputRequests"]
        answers: dict[str, Any] = {key: {"roots": []}}
        done = await ask(client, "tools/call", name="where", inputResponses=answers, requestState=again["requestState"])
        assert done["resultType"] == "complete"


async def test_a_modern_connector_may_ask_over_a_shared_session_and_a_legacy_one_may_not(tmp_path: Path) -> None:
    for back in ("modern", "legacy"):
        state = tmp_path / back
        state.mkdir()
        async with asking(state, back, session="shared") as house, client_of(house, "legacy") as client:
            text = await said(client, "where", Person())
            assert (text == "file:///home") == (back == "modern"), text


@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_a_program_may_be_asked_while_it_reads(front: Era, back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back) as house, client_of(house, front) as client:
        person = Person()
        assert "Ada" in await said(client, "delta", person, code="return await asker.get_name({});")
        assert person.asked[0][1]["message"] == "asker asks: Your name?"


@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_a_client_of_rounds_is_not_asked_while_changes_are_made(back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back, reviewed=True, mode="full") as house, client_of(house, "modern") as client:
        person = Person()
        text = await said(client, "delta", person, code='await asker.greet({greeting: "Hi"});')
        assert "cannot be asked while changes are made" in text
        assert not person.asked


# acceptance 53
@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_two_hundred_clients_with_equal_ids_get_their_own_answers(back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back, session="shared", queue=256) as house:
        answers: dict[int, str] = {}
        connecting = trio.Lock()

        async def one(number: int) -> None:
            async with AsyncExitStack() as stack:
                async with connecting:  # the socket's own queue is short
                    client = await stack.enter_async_context(house.client())
                while True:
                    reply = await client.call_with_busy("get_token", token=f"t{number}", delay=(number % 7) * 0.02)
                    if reply is not None:
                        answers[number] = reply
                        return
                    await trio.sleep(0.05)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for number in range(200):
                    nursery.start_soon(one, number)
        assert answers == {number: f"t{number}" for number in range(200)}


# acceptance 46, 47
@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_progress_and_log_messages_pass_as_they_are(front: Era, back: str, tmp_path: Path) -> None:
    async with asking(tmp_path, back) as house, client_of(house, front) as client:
        progress: list[tuple[float, float | None, str]] = []
        logs: list[Any] = []

        async def on_progress(*told: Any) -> None:
            await trio.lowlevel.checkpoint()
            progress.append(told)

        def on_notification(method: str, params: Json) -> None:
            assert method == "notifications/message"
            logs.append(json.loads(params))

        if front == "legacy":
            await client.request("logging/setLevel", b'{"level":"info"}')
        meta = {"io.modelcontextprotocol/logLevel": "info"} if front == "modern" else {}
        await client.request(
            "tools/call",
            b'{"name":"steps","arguments":{}}',
            on_progress=on_progress,
            on_notification=on_notification,
            meta=meta,
        )
        assert progress == [(0, 5, "step 0"), (2.5, 5, "step 1"), (5, 5, "step 2")]
        assert logs == [{"level": "info", "logger": "asker", "data": {"step": number}} for number in range(3)]
        if front == "modern":
            logs.clear()
            await client.request("tools/call", b'{"name":"steps","arguments":{}}', on_notification=on_notification)
            assert logs == []


# acceptance 48
@pytest.mark.parametrize("back", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["legacy", "modern"])
async def test_a_cancelled_call_is_cancelled_at_its_connector(front: Era, back: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with asking(tmp_path, back) as house, client_of(house, front) as client:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait", b"{}")
                await until_noted(notes, "waiting")
                nursery.cancel_scope.cancel()
            await until_noted(notes, "cancelled")
        assert await said(client, "get_token", Person(), token="t", delay=0) == "t"


async def until_noted(notes: Path, word: str) -> None:
    while not (notes.exists() and word in notes.read_text()):
        await trio.sleep(0.02)

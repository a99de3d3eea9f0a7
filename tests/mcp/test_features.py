"""Resources, prompts, completion, logging, pages and changes: one handler, both eras."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from delta_actors.mcp import (
    Completion,
    DeltaServer,
    Icon,
    PromptMessage,
    RequestContext,
    RpcError,
    ServerSettings,
    StdioParameters,
    TextContent,
    ToolResult,
    elicit,
    elicit_url,
    open_stdio,
    roots,
)
from delta_protocol.errors import Invalid
from delta_protocol.mcp.mirrors import BadMirror
from tests.mcp.samples import META, Peer, modern, note, request, served

ERAS = ("legacy", "modern")
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def small_server(settings: ServerSettings | None = None) -> DeltaServer:
    server = DeltaServer("small", "1", settings=settings)

    @server.resource("memo://today", mime_type="text/plain")
    def today() -> str:
        """What is on today."""
        return "rain"

    @server.resource("memo://{day}/{number}")
    def memo(day: str, number: int) -> dict[str, Any]:
        """One memo."""
        return {"day": day, "number": number}

    @server.prompt()
    def review(code: Annotated[str, msgspec.Meta(description="What to review")], style: str = "short") -> str:
        """Ask for a review."""
        return f"Review ({style}): {code}"

    @server.completion("style", prompt="review")
    def styles(value: str, known: Mapping[str, str]) -> Sequence[str]:
        return [style for style in ("short", "strict", known.get("code", "")) if style.startswith(value)]

    @server.tool()
    async def chatty(context: RequestContext) -> str:
        await context.log("debug", "details")
        await context.log("warning", {"disk": "full"}, "storage")
        return "done"

    return server


async def opened(peer: Peer, era: str) -> Any:
    """Begin, and return the capabilities that the server shows."""
    if era == "legacy":
        answer = await peer.ask(
            request(0, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}, "roots": {}})
        )
        await peer.say(note("notifications/initialized"))
    else:
        answer = await peer.ask(modern(0, "server/discover"))
    return answer["result"]["capabilities"]


def asking(era: str, identity: int, method: str, **params: Any) -> dict[str, Any]:
    return modern(identity, method, **params) if era == "modern" else request(identity, method, **params)


@pytest.mark.parametrize("era", ERAS)
async def test_what_works_is_advertised_and_nothing_else(era: str) -> None:
    async with served(small_server()) as peer:
        assert await opened(peer, era) == {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
            "logging": {},
        }
    async with served(DeltaServer("bare", "1", settings=ServerSettings(logging=False))) as peer:
        assert await opened(peer, era) == {"tools": {"listChanged": True}}
        for method in ("resources/list", "prompts/list", "completion/complete", "logging/setLevel"):
            assert (await peer.ask(asking(era, 1, method, level="info")))["error"]["code"] == -32601


@pytest.mark.parametrize("era", ERAS)
async def test_resources_are_listed_and_read(era: str) -> None:
    async with served(small_server()) as peer:
        await opened(peer, era)
        listed = (await peer.ask(asking(era, 1, "resources/list")))["result"]
        about = {"name": "today", "description": "What is on today.", "mimeType": "text/plain"}
        assert listed["resources"] == [{"uri": "memo://today", **about}]
        assert ("ttlMs" in listed) == (era == "modern")
        templates = (await peer.ask(asking(era, 2, "resources/templates/list")))["result"]["resourceTemplates"]
        assert [template["uriTemplate"] for template in templates] == ["memo://{day}/{number}"]
        read = (await peer.ask(asking(era, 3, "resources/read", uri="memo://today")))["result"]["contents"]
        assert read == [{"uri": "memo://today", "mimeType": "text/plain", "text": "rain"}]
        read = (await peer.ask(asking(era, 4, "resources/read", uri="memo://m%C3%A4rz/7")))["result"]["contents"]
        assert json.loads(read[0]["text"]) == {"day": "märz", "number": 7}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("uri", ["memo://tomorrow", "memo://x/no-number", "memo://%2E%2E/7", "memo://a%2Fb/7", ""])
async def test_what_cannot_be_read_is_named_in_the_error(era: str, uri: str) -> None:
    async with served(small_server()) as peer:
        await opened(peer, era)
        error = (await peer.ask(asking(era, 1, "resources/read", uri=uri)))["error"]
        assert error["code"] == (-32602 if era == "modern" else -32002)
        assert error["data"] == {"uri": uri}


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_are_listed_and_got(era: str) -> None:
    async with served(small_server()) as peer:
        await opened(peer, era)
        (prompt,) = (await peer.ask(asking(era, 1, "prompts/list")))["result"]["prompts"]
        assert prompt == {
            "name": "review",
            "description": "Ask for a review.",
            "arguments": [
                {"name": "code", "description": "What to review", "required": True},
                {"name": "style"},
            ],
        }
        got = (await peer.ask(asking(era, 2, "prompts/get", name="review", arguments={"code": "x=1"})))["result"]
        assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Review (short): x=1"}}]
        for wrong in ({"name": "review"}, {"name": "none"}, {"name": "review", "arguments": {"code": 1}}, {}):
            assert (await peer.ask(asking(era, 3, "prompts/get", **wrong)))["error"]["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_completed(era: str) -> None:
    async with served(small_server()) as peer:
        await opened(peer, era)

        async def complete(reference: dict[str, str], argument: str, value: str) -> Any:
            params = {"ref": reference, "argument": {"name": argument, "value": value}}
            context = {"arguments": {"code": "stray"}}
            return await peer.ask(asking(era, 1, "completion/complete", **params, context=context))

        review = {"type": "ref/prompt", "name": "review"}
        assert (await complete(review, "style", "st"))["result"]["completion"] == {"values": ["strict", "stray"]}
        assert (await complete(review, "code", ""))["result"]["completion"] == {"values": []}
        template = {"type": "ref/resource", "uri": "memo://{day}/{number}"}
        assert (await complete(template, "day", ""))["result"]["completion"] == {"values": []}
        assert (await complete({"type": "ref/prompt", "name": "none"}, "a", ""))["error"]["code"] == -32602
        assert (await complete({"type": "ref/tool", "name": "chatty"}, "a", ""))["error"]["code"] == -32602


def test_a_completion_shows_at_most_a_hundred_values() -> None:
    shown = json.loads(Completion([str(number) for number in range(250)]).to_json())["completion"]
    assert (len(shown["values"]), shown["total"], shown["hasMore"]) == (100, 250, True)


async def test_a_legacy_session_sets_its_log_level() -> None:
    async with served(small_server()) as peer:
        await opened(peer, "legacy")
        await peer.say(request(1, "tools/call", name="chatty"))
        told = await peer.hear()
        assert told["params"] == {"level": "warning", "logger": "storage", "data": {"disk": "full"}}
        assert (await peer.hear())["id"] == 1
        assert (await peer.ask(request(2, "logging/setLevel", level="debug")))["result"] == {}
        await peer.say(request(3, "tools/call", name="chatty"))
        assert [(await peer.hear())["params"]["level"] for _ in range(2)] == ["debug", "warning"]
        assert (await peer.hear())["id"] == 3
        assert (await peer.ask(request(4, "logging/setLevel", level="loud")))["error"]["code"] == -32602


async def test_a_modern_request_hears_the_levels_it_asks_for() -> None:
    async with served(small_server()) as peer:
        assert (await peer.ask(modern(1, "tools/call", name="chatty")))["id"] == 1
        level = {"io.modelcontextprotocol/logLevel": "warning"}
        await peer.say(modern(2, "tools/call", level, name="chatty"))
        assert (await peer.hear())["params"]["level"] == "warning"
        assert (await peer.hear())["id"] == 2
        unknown = {"io.modelcontextprotocol/logLevel": "loud"}
        assert (await peer.ask(modern(3, "tools/call", unknown, name="chatty")))["error"]["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_lists_come_in_pages(era: str) -> None:
    server = DeltaServer("many", "1", settings=ServerSettings(page=4))
    for number in range(10):
        server.tool(f"tool{number}")(lambda: "")
    async with served(server) as peer:
        await opened(peer, era)
        first = (await peer.ask(asking(era, 1, "tools/list")))["result"]
        server.tool("late")(lambda: "")
        server.remove_tool("tool0")
        if era == "legacy":
            assert (await peer.hear())["method"] == "notifications/tools/list_changed"
        second = (await peer.ask(asking(era, 2, "tools/list", cursor=first["nextCursor"])))["result"]
        third = (await peer.ask(asking(era, 3, "tools/list", cursor=second["nextCursor"])))["result"]
        names = [tool["name"] for answer in (first, second, third) for tool in answer["tools"]]
        assert names == [*(f"tool{number}" for number in range(10)), "late"]
        assert "nextCursor" not in third
        for cursor in ("", "nonsense", first["nextCursor"][:-4]):
            assert (await peer.ask(asking(era, 4, "tools/list", cursor=cursor)))["error"]["code"] == -32602


async def test_a_legacy_session_hears_of_what_it_subscribed_to() -> None:
    server = small_server()
    async with served(server) as peer:
        await opened(peer, "legacy")
        await peer.ask(request(1, "resources/subscribe", uri="memo://today"))
        server.resource_updated("memo://other")
        server.resource_updated("memo://today")
        told = await peer.hear()
        assert told == note("notifications/resources/updated", uri="memo://today")
        server.prompt("added")(lambda: "text")
        assert (await peer.hear())["method"] == "notifications/prompts/list_changed"
        await peer.ask(request(2, "resources/unsubscribe", uri="memo://today"))
        server.resource_updated("memo://today")
        server.remove_resource("memo://today")
        assert (await peer.hear())["method"] == "notifications/resources/list_changed"


async def test_a_listener_hears_of_what_it_asked_for() -> None:
    server = small_server()
    async with served(server) as peer:
        wanted = {"promptsListChanged": True, "resourceSubscriptions": ["memo://today", 7], "toolsListChanged": False}
        told = await peer.ask(modern("L", "subscriptions/listen", notifications=wanted))
        honoured = {"promptsListChanged": True, "resourceSubscriptions": ["memo://today"]}
        assert told["params"]["notifications"] == honoured
        server.tools_changed()
        server.changed("resources")
        server.remove_prompt("review")
        told = await peer.hear()
        assert told["method"] == "notifications/prompts/list_changed"
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "L"}
        server.resource_updated("memo://today")
        assert (await peer.hear())["params"]["uri"] == "memo://today"


async def test_a_listener_is_told_what_the_server_does_not_have() -> None:
    async with served(DeltaServer("bare", "1")) as peer:
        wanted = {"promptsListChanged": True, "resourceSubscriptions": ["memo://today"], "toolsListChanged": True}
        told = await peer.ask(modern("L", "subscriptions/listen", notifications=wanted))
        assert told["params"]["notifications"] == {"toolsListChanged": True}


def asking_server() -> DeltaServer:
    server = DeltaServer("asking", "1")

    @server.tool()
    async def both(context: RequestContext) -> str:
        name, found = await context.ask(elicit("Your name?", NAME_FORM, key="name"), roots(key="where"))
        return f"{json.loads(name)['content']['name']} in {json.loads(found)['roots'][0]['uri']}"

    @server.tool()
    async def visit(context: RequestContext) -> str:
        (answer,) = await context.ask(elicit_url("Please look", "https://example.org/"))
        return str(json.loads(answer)["action"])

    @server.prompt()
    async def personal(context: RequestContext) -> PromptMessage:
        (answer,) = await context.ask(elicit("Your name?", NAME_FORM, key="name"))
        return PromptMessage("assistant", TextContent(text=f"Hello {json.loads(answer)['content']['name']}"))

    return server


ANN = {"action": "accept", "content": {"name": "Ann"}}
HOME = {"roots": [{"uri": "file:///home"}]}


async def test_a_modern_client_is_asked_everything_at_once_and_again_for_what_is_missing() -> None:
    async with served(asking_server()) as peer:
        asked = (await peer.ask(modern(1, "tools/call", name="both")))["result"]
        assert {key: each["method"] for key, each in asked["inputRequests"].items()} == {
            "name": "elicitation/create",
            "where": "roots/list",
        }
        unfit = {"name": {"action": "accept", "content": {"name": 7}}, "where": HOME}
        again = modern(2, "tools/call", name="both", inputResponses=unfit, requestState=asked["requestState"])
        asked = (await peer.ask(again))["result"]
        assert list(asked["inputRequests"]) == ["name"]
        last = modern(3, "tools/call", name="both", inputResponses={"name": ANN}, requestState=asked["requestState"])
        assert (await peer.ask(last))["result"]["content"][0]["text"] == "Ann in file:///home"


async def test_answers_to_named_questions_count_without_a_state() -> None:
    async with served(asking_server()) as peer:
        given = {"name": ANN, "where": HOME, "unknown": {"x": 1}}
        answer = await peer.ask(modern(1, "tools/call", name="both", inputResponses=given))
        assert answer["result"]["content"][0]["text"] == "Ann in file:///home"


async def test_a_prompt_asks_in_both_eras() -> None:
    async with served(asking_server()) as peer:
        asked = (await peer.ask(modern(1, "prompts/get", name="personal")))["result"]
        retry = {"inputResponses": {"name": ANN}, "requestState": asked["requestState"]}
        got = (await peer.ask(modern(2, "prompts/get", name="personal", **retry)))["result"]
        assert got["messages"][0]["content"]["text"] == "Hello Ann"
        await opened(peer, "legacy")
        question = await peer.ask(request(3, "prompts/get", name="personal"))
        got = await peer.ask({"jsonrpc": "2.0", "id": question["id"], "result": ANN})
        assert got["result"]["messages"][0]["content"]["text"] == "Hello Ann"


async def test_a_legacy_client_is_asked_everything_at_once() -> None:
    async with served(asking_server()) as peer:
        await opened(peer, "legacy")
        await peer.say(request(1, "tools/call", name="both"))
        for question in (await peer.hear(), await peer.hear()):
            answer = ANN if question["method"] == "elicitation/create" else HOME
            await peer.say({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert (await peer.hear())["result"]["content"][0]["text"] == "Ann in file:///home"


async def test_only_a_legacy_question_with_a_url_has_an_id() -> None:
    capabilities: dict[str, Any] = {"elicitation": {"url": {}}}
    async with served(asking_server()) as peer:
        meta = META | {"io.modelcontextprotocol/clientCapabilities": capabilities}
        asked = (await peer.ask(modern(1, "tools/call", meta, name="visit")))["result"]["inputRequests"]["q1"]
        assert asked["params"] == {"mode": "url", "message": "Please look", "url": "https://example.org/"}
        await peer.ask(request(2, "initialize", protocolVersion="2025-11-25", capabilities=capabilities))
        question = await peer.ask(request(3, "tools/call", name="visit"))
        assert question["params"]["elicitationId"]


class Weather(msgspec.Struct):
    city: str
    degrees: float


async def test_a_declared_record_is_structured_content_with_its_schema() -> None:
    server = DeltaServer("typed", "1", icons=(Icon("data:image/png;base64,AA==", "image/png"),))

    @server.tool(icons=(Icon("https://example.org/icon.png", sizes=("48x48",)),), open_world=False, meta=b'{"a/b":1}')
    def weather(city: str) -> Weather:
        return Weather(city, 21.5)

    @server.tool(output_schema=b'{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}')
    def counted(good: bool) -> dict[str, Any]:
        return {"n": 1 if good else "one"}

    async with served(server) as peer:
        tool, _ = (await peer.ask(modern(1, "tools/list")))["result"]["tools"]
        assert tool["outputSchema"]["required"] == ["city", "degrees"]
        assert tool["icons"] == [{"src": "https://example.org/icon.png", "sizes": ["48x48"]}]
        assert (tool["annotations"], tool["_meta"]) == ({"openWorldHint": False}, {"a/b": 1})
        result = (await peer.ask(modern(2, "tools/call", name="weather", arguments={"city": "Rome"})))["result"]
        assert result["structuredContent"] == {"city": "Rome", "degrees": 21.5}
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["icons"]
        good = (await peer.ask(modern(3, "tools/call", name="counted", arguments={"good": True})))["result"]
        assert good["structuredContent"] == {"n": 1}
        bad = (await peer.ask(modern(4, "tools/call", name="counted", arguments={"good": False})))["error"]
        assert bad["code"] == -32603
        assert "output schema: n:" in bad["message"]


async def test_a_given_schema_is_shown_as_it_is_and_checked() -> None:
    schema = b'{ "type": "object", "anyOf": [{"required":["a"]},{"required":["b"]}], "$comment": "kept" }'
    server = DeltaServer("given", "1")

    @server.tool(input_schema=schema)
    def either(a: str = "", b: str = "") -> ToolResult:
        return ToolResult.text(a + b)

    async with served(server) as peer:
        (tool,) = (await peer.ask(modern(1, "tools/list")))["result"]["tools"]
        assert tool["inputSchema"] == json.loads(schema)
        good = await peer.ask(modern(2, "tools/call", name="either", arguments={"b": "x", "other": 1}))
        assert good["result"]["content"][0]["text"] == "x"
        bad = (await peer.ask(modern(3, "tools/call", name="either", arguments={})))["result"]
        assert bad["isError"]
        assert "anyOf" in bad["content"][0]["text"]


MIRRORED_NUMBER = b'{"type":"object","properties":{"city":{"type":"number","x-mcp-header":"City"}}}'


def test_what_a_server_cannot_offer_is_refused_where_it_is_defined() -> None:
    server = small_server()

    def takes(city: str) -> str:
        return city

    with pytest.raises(Invalid):
        server.tool(input_schema=b'{"type":"nonsense"}')(takes)
    with pytest.raises(BadMirror):
        server.tool(input_schema=MIRRORED_NUMBER)(takes)
    with pytest.raises(TypeError):
        server.resource("memo://{town}")(takes)
    with pytest.raises(TypeError):
        server.resource("memo://plain")(takes)
    with pytest.raises(ValueError, match="already"):
        server.resource("memo://today")(lambda: "")
    with pytest.raises(ValueError, match="already"):
        server.prompt("review")(takes)
    with pytest.raises(TypeError):
        server.completion("style")(lambda value, known: [value])


async def test_a_question_may_not_have_another_ones_key() -> None:
    server = DeltaServer("twice", "1")

    @server.tool()
    async def twice(context: RequestContext) -> str:
        await context.ask(roots(key="same"), roots(key="same"))
        return ""

    async with served(server) as peer:
        result = (await peer.ask(modern(1, "tools/call", name="twice")))["result"]
        assert "two questions with the key 'same'" in result["content"][0]["text"]
        assert result["isError"] is True


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "features_server.py"


@pytest.mark.parametrize("era", ERAS)
async def test_the_example_with_every_feature_runs(era: Literal["legacy", "modern"]) -> None:
    asked: list[str] = []

    async def sure(method: str, params: bytes) -> bytes:
        asked.append(json.loads(params)["message"])
        return b'{"action":"accept","content":{"sure":true}}'

    parameters = StdioParameters(sys.executable, (str(EXAMPLE),), era=era, capabilities=b'{"elicitation":{}}')
    async with open_stdio(parameters) as client:
        read = json.loads(await client.request("resources/read", b'{"uri":"notes://note/garden"}'))
        assert read["contents"][0]["text"] == "water the beans"
        prompt = json.loads(await client.request("prompts/get", b'{"name":"summarize","arguments":{"style":"long"}}'))
        assert "long summary" in prompt["messages"][0]["content"]["text"]
        deleted = await client.call_tool("delete", b'{"name":"garden"}', on_question=sure)
        assert json.loads(deleted.result)["structuredContent"] == {"name": "garden", "text": "water the beans"}
        assert asked == ["Delete garden?"]
        with pytest.raises(RpcError):
            await client.request("resources/read", b'{"uri":"notes://note/garden"}')

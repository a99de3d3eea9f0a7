"""Progressive disclosure: the extension's methods, and three tools in place of all (spec 6.3, CS-02)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delta_actors.mcp import DeltaServer, Disclosure
from delta_protocol.mcp import disclosure
from tests.gateway.counting import EXACT, tokens
from tests.mcp.samples import modern, request, served
from tests.shared_data import data

METHODS = Disclosure()
META = Disclosure(methods=False, meta_tools=True)
INDEX, DESCRIBE, SEARCH = disclosure.INDEX, disclosure.DESCRIBE, disclosure.SEARCH


def office(options: Disclosure | None) -> DeltaServer:
    server = DeltaServer("office", "1", disclosure=options)

    @server.tool(title="Send mail", summary="Send an e-mail", destructive=True, scopes=("mail.send",))
    def send_mail(to: list[str], subject: str, urgent: bool = False) -> str:
        """Send an e-mail to people.

        The whole story of it, which an index does not tell.
        """
        return f"sent {subject!r} to {', '.join(to)}"

    @server.tool(read_only=True)
    def list_tickets(status: str = "open") -> str:
        """List tickets of the help desk"""
        return status

    @server.tool()
    def close_ticket(number: int) -> str:
        """Close a ticket"""
        return f"closed {number}"

    return server


async def test_a_server_says_that_it_has_an_index_and_its_list_stays_whole() -> None:
    async with served(office(METHODS)) as peer:
        found = (await peer.ask(modern(1, "server/discover")))["result"]["capabilities"]
        assert found["extensions"][disclosure.EXTENSION]["maxDescribe"] == 64
        assert "experimental" not in found
        tools = (await peer.ask(modern(2, "tools/list")))["result"]["tools"]
        assert all("inputSchema" in tool for tool in tools)
        assert tools[0]["description"].endswith("does not tell.")
    async with served(office(METHODS)) as peer:
        begun = await peer.ask(request(1, "initialize", protocolVersion="2025-11-25", capabilities={}))
        declared = begun["result"]["capabilities"]
        assert declared["experimental"] == declared["extensions"]
        assert "resultType" not in (await peer.ask(request(2, INDEX)))["result"]


async def test_without_it_nothing_of_it_is_there() -> None:
    async with served(office(None)) as peer:
        found = (await peer.ask(modern(1, "server/discover")))["result"]["capabilities"]
        assert "extensions" not in found
        assert (await peer.ask(modern(2, INDEX)))["error"]["code"] == -32601


async def test_the_index_tells_what_a_tool_is_for_and_whether_it_is_dangerous() -> None:
    async with served(office(METHODS)) as peer:
        result = (await peer.ask(modern(1, INDEX)))["result"]
        (tool,) = (await peer.ask(modern(2, "tools/list")))["result"]["tools"][:1]
        assert result["tools"][0] == {
            "name": "send_mail",
            "title": "Send mail",
            "summary": "Send an e-mail",
            "hints": ["destructive"],
            "digest": disclosure.digest_of(json.dumps(tool).encode()),
        }
        assert result["tools"][1]["hints"] == ["read-only"]
        assert (result["resultType"], result["cacheScope"]) == ("complete", "private")


async def test_the_index_comes_in_pages_and_by_words() -> None:
    async with served(office(METHODS)) as peer:
        first = (await peer.ask(modern(1, INDEX, limit=2, digest=False)))["result"]
        assert [tool["name"] for tool in first["tools"]] == ["send_mail", "list_tickets"]
        rest = (await peer.ask(modern(2, INDEX, limit=2, cursor=first["nextCursor"])))["result"]
        assert [tool["name"] for tool in rest["tools"]] == ["close_ticket"]
        assert "nextCursor" not in rest
        found = (await peer.ask(modern(3, INDEX, query="tickets")))["result"]
        assert {tool["name"] for tool in found["tools"]} == {"close_ticket", "list_tickets"}
        found = (await peer.ask(modern(4, SEARCH, query="urgent mails", limit=1)))["result"]
        assert [tool["name"] for tool in found["tools"]] == ["send_mail"]


async def test_describe_takes_many_names_and_leaves_out_what_the_client_knows() -> None:
    async with served(office(METHODS)) as peer:
        tools = (await peer.ask(modern(1, "tools/list")))["result"]["tools"]
        digests = {tool["name"]: tool["digest"] for tool in (await peer.ask(modern(2, INDEX)))["result"]["tools"]}
        names = ["close_ticket", "send_mail", "nothing"]
        result = (await peer.ask(modern(3, DESCRIBE, names=names)))["result"]
        assert result["tools"] == [tools[2], tools[0]]
        assert result["unknown"] == ["nothing"]
        known = {"close_ticket": digests["close_ticket"], "send_mail": "other"}
        result = (await peer.ask(modern(4, DESCRIBE, names=names[:2], digests=known)))["result"]
        assert (result["tools"], result["unchanged"]) == ([tools[0]], ["close_ticket"])


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (DESCRIBE, {"names": ["nothing", "neither"]}),
        (DESCRIBE, {"names": []}),
        (DESCRIBE, {"names": "send_mail"}),
        (DESCRIBE, {"names": ["send_mail"] * 65}),
        (DESCRIBE, {"names": ["send_mail"], "format": "xml"}),
        (INDEX, {"cursor": "x"}),
        (INDEX, {"limit": 0}),
        (SEARCH, {}),
    ],
)
async def test_malformed_requests_are_errors_of_the_protocol(method: str, params: dict[str, Any]) -> None:
    async with served(office(METHODS)) as peer:
        assert (await peer.ask(modern(1, method, **params)))["error"]["code"] == -32602


async def test_a_signature_says_in_one_line_what_a_tool_takes() -> None:
    async with served(office(METHODS)) as peer:
        result = (await peer.ask(modern(1, DESCRIBE, names=["send_mail"], format="signature")))["result"]
        assert result["tools"][0]["signature"] == "send_mail({to: string[], subject: string, urgent?: boolean})"
        assert result["tools"][0]["hints"] == ["destructive"]


async def call(peer: Any, name: str, /, **arguments: Any) -> tuple[str, bool]:
    result = (await peer.ask(modern(1, "tools/call", name=name, arguments=arguments)))["result"]
    return result["content"][0]["text"], result.get("isError", False)


async def test_three_tools_stand_for_all() -> None:
    async with served(office(META)) as peer:
        tools = (await peer.ask(modern(1, "tools/list")))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["search_tools", "describe_tool", "call_tool"]
        text, _ = await call(peer, "search_tools", query="mail")
        assert text == "send_mail: Send an e-mail [destructive]"
        text, _ = await call(peer, "search_tools")
        assert len(text.splitlines()) == 3
        text, _ = await call(peer, "describe_tool", names=["send_mail", "nothing"])
        assert "send_mail({to: string[], subject: string, urgent?: boolean}) [destructive]\nSend an e-mail to" in text
        assert "Unknown tool: nothing" in text
        text, _ = await call(peer, "describe_tool", names='["list_tickets"]', format="schema")
        assert json.loads(text)["annotations"] == {"readOnlyHint": True}
        text, _ = await call(peer, "call_tool", name="close_ticket", arguments={"number": 2**60 + 1})
        assert text == f"closed {2**60 + 1}"
        assert await call(peer, "close_ticket", number=3) == ("closed 3", False)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("call_tool", {"name": "close_tickets", "arguments": {}}, "did you mean close_ticket?"),
        ("call_tool", {"name": "close_ticket", "arguments": {"nummer": 1}}, "missing: number · unknown: nummer"),
        ("call_tool", {}, "missing: name"),
        ("describe_tool", {"names": ["nothing"]}, "search_tools finds tools"),
        ("search_tools", {"limit": 0}, "wrong: limit"),
    ],
)
async def test_what_does_not_fit_is_a_result_that_a_model_can_correct(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    async with served(office(META)) as peer:
        text, is_error = await call(peer, name, **arguments)
        assert is_error
        assert said in text


def test_a_tool_without_a_summary_or_with_a_name_of_ours_is_refused() -> None:
    server = DeltaServer("s", "1", disclosure=META)
    with pytest.raises(ValueError, match="60 chars"):
        server.tool(name="long", description="x" * 61)(lambda: None)
    with pytest.raises(ValueError, match="by itself"):
        server.tool(name="call_tool", description="x")(lambda: None)


def fixture_server(name: str, options: Disclosure) -> DeltaServer:
    server = DeltaServer("f", "1", disclosure=options)
    for tool in json.loads(data("data", "fixtures", f"{name}.json").read_text()):
        schema = json.dumps(tool["inputSchema"]).encode()
        server.tool(name=tool["name"], description=tool["description"], input_schema=schema)(lambda: "")
    return server


@pytest.mark.shared_data
@pytest.mark.skipif(not EXACT, reason="needs the tokenizer bpe-openai")
@pytest.mark.parametrize(
    ("name", "index", "whole", "signatures"),
    [("tools-6", 90, 1.12, 0.6), ("tools-20-dense", 315, 1.12, 0.6), ("tools-20", 315, 1.22, 0.7)],
)
async def test_what_disclosure_costs(name: str, index: int, whole: float, signatures: float) -> None:
    """The bounds are those of delta-mcp 0.2.1, for a list of names and summaries and for describing all of them."""
    async with served(fixture_server(name, METHODS)) as peer:

        async def cost(method: str, **params: Any) -> int:
            result = (await peer.ask(modern(1, method, **params)))["result"]
            return tokens(json.dumps({"tools": result["tools"]}, separators=(",", ":"), ensure_ascii=False))

        full = (await peer.ask(modern(2, "tools/list")))["result"]["tools"]
        names = [tool["name"] for tool in full]
        standard = await cost("tools/list")
        listed = await cost(INDEX, digest=False)
        described = await cost(DESCRIBE, names=names)
        compact = await cost(DESCRIBE, names=names, format="signature")
        print(
            name, standard, listed, described, compact, (listed + described) / standard, (listed + compact) / standard
        )
        assert listed <= index
        assert listed + described <= whole * standard
        assert compact <= 0.6 * standard
        assert listed + compact <= signatures * standard
    async with served(fixture_server(name, META)) as peer:
        text, _ = await call(peer, "search_tools")
        assert tokens(text) <= index

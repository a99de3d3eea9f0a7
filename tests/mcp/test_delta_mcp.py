"""Clients of delta-mcp 0.x on lines: their handshake, lists of names, compact-json (CS-01, CS-02, CS-03, CS-10)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from delta_actors.mcp import DeltaServer, Disclosure, StdioParameters, open_stdio
from delta_protocol.codecs import compact
from tests.gateway.counting import EXACT, tokens
from tests.mcp.samples import Peer, modern, note, request, served
from tests.mcp.test_disclosure import fixture_server
from tests.shared_data import data

PEERS = Disclosure(methods=False, delta_mcp=True)
ASKED = {"tools": {"progressiveDisclosure": True, "lazyLoading": True}, "encoding": {"compactJson": True}}


def office(options: Disclosure | None = PEERS) -> DeltaServer:
    server = DeltaServer("office", "1.2", title="Office", disclosure=options)

    @server.tool(summary="List a folder", read_only=True)
    def list_dir(path: str = ".") -> list[str]:
        """List what is in a folder, in order of names."""
        return ["a", "b"]

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("intentional demo failure")

    @server.tool()
    def echo(value: dict[str, Any]) -> dict[str, Any]:
        """Give back."""
        return value

    return server


class CompactPeer:
    """A client that speaks compact-json once it was agreed on."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._compact = False

    async def begin(self, version: str = "delta-mcp/0.2.0", **capabilities: Any) -> dict[str, Any]:
        message = request(0, "initialize", protocolVersion=version, capabilities=capabilities or ASKED)
        result: dict[str, Any] = (await self._peer.ask(message))["result"]
        self._compact = result.get("encoding", {}).get("format") == "compact-json"
        await self.say(note("notifications/initialized"))
        return result

    async def say(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        await self._peer.say(compact.encode(text) if self._compact else text)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        await self.say(request(1, method, **params))
        return await self.hear()

    async def hear(self) -> dict[str, Any]:
        heard = json.dumps(await self._peer.hear()).encode()
        answer: dict[str, Any] = json.loads(compact.decode(heard) if self._compact else heard)
        return answer


async def test_a_peer_is_met_in_its_own_way() -> None:
    """CS-01, CS-02-01, CS-02-03."""
    async with served(office()) as lines:
        peer = CompactPeer(lines)
        assert await peer.begin() == {
            "protocolVersion": "delta-mcp/0.2.0",
            "baselineVersion": "2025-11-25",
            "serverInfo": {"name": "office", "version": "1.2"},
            "capabilities": {
                "tools": {"progressiveDisclosure": True, "lazyLoading": True},
                "encoding": {"compactJson": True},
            },
            "encoding": {"format": "compact-json"},
        }
        listed = (await peer.ask("tools/list"))["result"]
        assert listed["tools"][0] == {"name": "list_dir", "description": "List a folder"}
        described = (await peer.ask("tools/describe", name="list_dir"))["result"]
        assert described["description"].startswith("List what is in a folder")
        assert described["inputSchema"]["type"] == "object"
        assert described["annotations"] == {"readOnlyHint": True}
        assert (await peer.ask("tools/describe", name="nothing"))["error"]["code"] == -32602
        assert (await peer.ask("ping"))["result"] == {}


async def test_calls_are_the_standard_ones() -> None:
    """CS-03."""
    async with served(office()) as lines:
        peer = CompactPeer(lines)
        await peer.begin()
        called = (await peer.ask("tools/call", name="list_dir"))["result"]
        assert json.loads(called["content"][0]["text"]) == ["a", "b"]
        failed = (await peer.ask("tools/call", name="fail"))["result"]
        assert (failed["isError"], failed["content"][0]["text"]) == (True, "intentional demo failure")
        assert "nothing" in (await peer.ask("tools/call", name="nothing"))["error"]["message"]
        keys = {"n": 1, "name": 2, "~n": 3, "toString": 4, "i": [{"t": 5}]}
        echoed = (await peer.ask("tools/call", name="echo", arguments={"value": keys}))["result"]
        assert echoed["structuredContent"] == keys


async def test_a_plain_message_after_the_switch_keeps_its_keys() -> None:
    """W20."""
    async with served(office()) as lines:
        peer = CompactPeer(lines)
        await peer.begin()
        await lines.say(request(5, "tools/call", name="echo", arguments={"value": {"n": 5, "~x": 1}}))
        assert (await peer.hear())["result"]["structuredContent"] == {"n": 5, "~x": 1}
        await lines.say(b"junk")
        assert (await peer.hear())["error"]["code"] == -32700


@pytest.mark.parametrize(
    ("version", "capabilities", "ours", "names"),
    [
        ("delta-mcp/0", ASKED, True, True),
        ("delta-mcp/0.9.9", {"tools": {"progressiveDisclosure": True}}, True, True),
        ("delta-mcp/0.2.0", {"encoding": {"cbor": True}}, True, False),
        ("delta-mcp/9.0.0", ASKED, False, False),
        ("delta-mcp/00.1", ASKED, False, False),
        ("delta-mcp/", ASKED, False, False),
        ("2025-06-18", ASKED, False, False),
    ],
)
async def test_only_the_same_major_version_gets_what_it_asks_for(
    version: str, capabilities: dict[str, Any], ours: bool, names: bool
) -> None:
    """CS-10-01."""
    async with served(office()) as lines:
        peer = CompactPeer(lines)
        begun = await peer.begin(version, **capabilities)
        assert begun["protocolVersion"].startswith("delta-mcp/0.2.0" if ours else "2025-")
        assert ("encoding" in begun) == ours
        (first, *_) = (await peer.ask("tools/list"))["result"]["tools"]
        assert ("inputSchema" not in first) == names
        assert "result" in await peer.ask("tools/describe", name="echo")


async def test_a_server_that_does_not_want_it_is_a_standard_one() -> None:
    async with served(office(None)) as lines:
        peer = CompactPeer(lines)
        assert (await peer.begin())["protocolVersion"] == "2025-11-25"
        assert "inputSchema" in (await peer.ask("tools/list"))["result"]["tools"][0]
        assert (await peer.ask("tools/describe", name="echo"))["error"]["code"] == -32601
    async with served(office()) as lines:
        assert "inputSchema" in (await lines.ask(modern(1, "tools/list")))["result"]["tools"][0]


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "progressive_server.py"
PLAIN = EXAMPLE.with_name("stdio_server.py")


async def test_our_client_speaks_it_too() -> None:
    """CS-01-05, CS-02-04, CS-03-01."""
    async with open_stdio(StdioParameters(sys.executable, (str(EXAMPLE),), era="delta-mcp")) as client:
        assert (client.server_info.name, client.protocol_version) == ("library", "2025-11-25")
        assert [entry.name for entry in await client.tools.index()][-2:] == ["list_books", "lend"]
        assert [entry.summary for entry in await client.tools.search("lend")] == ["Lend a book to whoever asks"]
        described = await client.tools.describe(["lend", "nothing"])
        assert list(described) == ["lend"]
        assert json.loads(described["lend"])["inputSchema"]["required"] == ["title"]
        assert await client.tools.describe(["lend"]) == described
        lent = await client.call_tool("lend", b'{"title":"Emma"}')
        assert b"Emma is lent to stdio" in lent.result


async def test_our_client_falls_back_where_the_server_does_not() -> None:
    async with open_stdio(StdioParameters(sys.executable, (str(PLAIN),), era="delta-mcp")) as client:
        assert [entry.name for entry in await client.tools.index()] == ["add", "count"]
        assert b'"3"' in (await client.call_tool("add", b'{"a":1,"b":2}')).result


@pytest.mark.shared_data
@pytest.mark.skipif(not EXACT, reason="needs the tokenizer bpe-openai")
@pytest.mark.parametrize(("name", "most"), [("tools-6", 90), ("tools-20-dense", 315), ("tools-20", 315)])
async def test_what_a_list_of_names_costs(name: str, most: int) -> None:
    """CS-07-01."""
    async with served(fixture_server(name, PEERS)) as lines:
        peer = CompactPeer(lines)
        await peer.begin()
        result = (await peer.ask("tools/list"))["result"]
        assert len(result["tools"]) == len(json.loads(data("data", "fixtures", f"{name}.json").read_text()))
        assert tokens(json.dumps(result, separators=(",", ":"), ensure_ascii=False)) <= most

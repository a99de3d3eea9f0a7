"""Peers of delta-mcp 0.x over HTTP: each message says its own encoding, sessions keep apart (CS-01, CS-08, CS-13)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import cbor2
import httpx
import pytest

from delta_actors.mcp import HttpParameters, open_http
from delta_protocol.codecs import compact
from delta_protocol.mcp.errors import NoReply, RpcError
from tests.mcp.samples import note, request
from tests.mcp.test_delta_mcp import ASKED, office
from tests.mcp.web import Site, site

JSON = "application/json"
COMPACT = "application/json; variant=compact"
CBOR = "application/cbor"
FORMS = {"json": JSON, "compact-json": COMPACT, "cbor": CBOR}


def write(form: str, message: Any) -> bytes:
    text = json.dumps(message).encode()
    return {JSON: text, COMPACT: compact.encode(text), CBOR: cbor2.dumps(message)}[form]


def read(form: str, body: bytes) -> Any:
    if form == CBOR:
        return cbor2.loads(body)
    return json.loads(compact.decode(body) if form == COMPACT else body)


class WebPeer:
    """A client as delta-mcp 0.2's: JSON until the handshake, then what was agreed; its version header is always the
    same, and it takes no event stream."""

    def __init__(self, web: Site) -> None:
        self._web = web
        self._form = JSON
        self._headers = {"mcp-protocol-version": "2025-11-25"}

    async def begin(self, version: str = "delta-mcp/0.2.0", **capabilities: Any) -> dict[str, Any]:
        answer = await self.post(request(0, "initialize", protocolVersion=version, capabilities=capabilities or ASKED))
        result: dict[str, Any] = read(JSON, answer.content)["result"]
        self._headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        self._form = FORMS[result.get("encoding", {}).get("format", "json")]
        assert (await self.post(note("notifications/initialized"))).status_code == 202
        return result

    async def post(self, message: dict[str, Any], **headers: str) -> httpx.Response:
        said = {"content-type": self._form, "accept": f"{self._form}, {JSON}"} | self._headers
        return await self._web.http.post(self._web.url, content=write(self._form, message), headers=said | headers)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.post(request(1, method, **params))
        assert (answer.status_code, answer.headers["content-type"]) == (200, self._form)
        found: dict[str, Any] = read(self._form, answer.content)
        return found


@pytest.mark.parametrize(
    ("encoding", "agreed"),
    [({}, "json"), ({"compactJson": True}, "compact-json"), ({"compactJson": True, "cbor": True}, "cbor")],
)
async def test_a_peer_is_met_in_its_own_way_over_http(encoding: dict[str, bool], agreed: str) -> None:
    async with site(office()) as web:
        peer = WebPeer(web)
        begun = await peer.begin(tools={"progressiveDisclosure": True}, encoding=encoding)
        assert begun["protocolVersion"] == "delta-mcp/0.2.0"
        assert begun["capabilities"]["encoding"] == {"compactJson": True, "cbor": True}
        assert begun["encoding"] == {"format": agreed}
        listed = (await peer.ask("tools/list"))["result"]["tools"]
        assert listed[0] == {"name": "list_dir", "description": "List a folder"}
        assert (await peer.ask("tools/describe", name="echo"))["result"]["inputSchema"]["type"] == "object"
        keys = {"n": 1, "name": 2, "~n": 3, "i": [{"t": 5}]}
        echoed = (await peer.ask("tools/call", name="echo", arguments={"value": keys}))["result"]
        assert echoed["structuredContent"] == keys
        assert (await peer.ask("tools/call", name="fail"))["result"]["isError"]


async def test_sessions_of_both_kinds_keep_apart() -> None:
    """CS-13."""
    async with site(office()) as web:
        peer = WebPeer(web)
        await peer.begin()
        standard = await web.begin()
        plain = WebPeer(web)
        assert (await plain.begin("delta-mcp/9.0.0"))["protocolVersion"] == "2025-11-25"
        answer = (await web.post(request(1, "tools/list"), standard)).json()
        assert "inputSchema" in answer["result"]["tools"][0]
        assert "inputSchema" in (await plain.ask("tools/list"))["result"]["tools"][0]
        assert "inputSchema" not in (await peer.ask("tools/list"))["result"]["tools"][0]


async def test_a_body_in_another_form_than_its_header_says_is_refused() -> None:
    async with site(office()) as web:
        peer = WebPeer(web)
        await peer.begin()
        for said in (JSON, CBOR):
            answer = await peer.post(request(1, "tools/list"), **{"content-type": said})
            assert answer.status_code == 400, said
        assert "result" in await peer.ask("tools/list")


async def test_a_server_that_does_not_want_it_stays_a_standard_one_over_http() -> None:
    async with site(office(None)) as web:
        peer = WebPeer(web)
        assert (await peer.begin())["protocolVersion"] == "2025-11-25"
        assert "inputSchema" in (await peer.ask("tools/list"))["result"]["tools"][0]
        assert (await peer.post(request(2, "tools/list"), **{"content-type": CBOR})).status_code == 415


DEFINITION = {"name": "add", "description": "Add", "inputSchema": {"type": "object"}}


class PeerServer(BaseHTTPRequestHandler):
    """A server as delta-mcp 0.2's. It looks for words in headers, knows no event streams and answers any path."""

    protocol_version = "HTTP/1.1"
    agreed = "compact-json"
    speaks = "delta-mcp/0.2.0"
    forms: list[str]
    """What each request came in."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        given, accepted = self.headers["content-type"], self.headers["accept"]
        form = CBOR if CBOR in given else COMPACT if "variant=compact" in given else JSON
        self.forms.append(form)
        message = read(form, body)
        version = self.headers.get("mcp-protocol-version")
        if version not in (None, "2025-11-25") or (version is None and message["method"] != "initialize"):
            self._send(400, b'{"error":"Unsupported MCP-Protocol-Version"}', JSON)
        elif "id" not in message:
            self._send(202, b"", JSON)
        else:
            answer = CBOR if CBOR in accepted else COMPACT if "variant=compact" in accepted else JSON
            reply = {"jsonrpc": "2.0", "id": message["id"], **self._result(message)}
            written = CBOR if message.get("params", {}).get("name") == "lie" else answer
            self._send(200, write(written, reply), answer)

    def do_GET(self) -> None:
        self._send(405, b"", JSON)

    do_DELETE = do_GET  # noqa: N815 - the library's own name

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        params = message.get("params", {})
        match message["method"]:
            case "initialize" if params["protocolVersion"].startswith("delta-mcp/0."):
                encoding = {"compactJson": True, "cbor": True}
                declared = {"tools": {"progressiveDisclosure": True, "lazyLoading": True}, "encoding": encoding}
                told = {"protocolVersion": self.speaks, "baselineVersion": "2025-11-25", "capabilities": declared}
                server = {"name": "peer", "version": "0.2.0"}
                return {"result": {**told, "serverInfo": server, "encoding": {"format": self.agreed}}}
            case "tools/list":
                return {"result": {"tools": [{"name": "add", "description": "Add"}]}}
            case "tools/describe" if params["name"] == "add":
                return {"result": DEFINITION}
            case "tools/call":
                total = sum(params["arguments"].values())
                return {"result": {"content": [{"type": "text", "text": str(total)}]}}
            case method:
                return {"error": {"code": -32602, "message": f"Unknown: {method}"}}

    def _send(self, status: int, body: bytes, form: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", form)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", "s-1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def peer_server(agreed: str = "compact-json", speaks: str = "delta-mcp/0.2.0") -> Iterator[tuple[str, list[str]]]:
    """Give the URL of a peer and what its requests came in."""
    forms: list[str] = []
    handler = type("Handler", (PeerServer,), {"agreed": agreed, "speaks": speaks, "forms": forms})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/any", forms
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("agreed", [*FORMS, "unheard of"])
async def test_our_client_speaks_it_over_http(agreed: str) -> None:
    """CS-08-04."""
    with peer_server(agreed) as (url, forms):
        async with open_http(HttpParameters(url, era="delta-mcp")) as client:
            assert (client.server_info.name, client.protocol_version) == ("peer", "2025-11-25")
            assert [(entry.name, entry.summary) for entry in await client.tools.index()] == [("add", "Add")]
            described = await client.tools.describe(["add", "nothing"])
            assert {name: json.loads(text) for name, text in described.items()} == {"add": DEFINITION}
            assert b'"5"' in (await client.call_tool("add", b'{"a":2,"n":3}')).result
            with pytest.raises(RpcError, match="Unknown"):
                await client.request("resources/list", b"{}")
        assert forms[0] == JSON
        assert set(forms[1:]) == {FORMS.get(agreed, JSON)}


async def test_our_client_meets_such_a_server_as_a_standard_one_unless_told() -> None:
    with peer_server(speaks="2025-11-25") as (url, forms):
        async with open_http(HttpParameters(url, era="delta-mcp")) as client:
            assert b'"3"' in (await client.call_tool("add", b'{"a":1,"b":2}')).result
        assert set(forms) == {JSON}


async def test_both_of_ours_understand_each_other_in_it() -> None:
    async with site(office()) as web, open_http(HttpParameters(web.url, era="delta-mcp")) as client:
        assert (await client.tools.index())[0].summary == "List a folder"
        arguments = b'{"value":{"n":1,"big":1917043659912705296}}'
        assert b"1917043659912705296" in (await client.call_tool("echo", arguments)).result


async def test_an_answer_in_another_form_than_its_header_says_is_told_and_never_guessed() -> None:
    with peer_server() as (url, _):
        async with open_http(HttpParameters(url, era="delta-mcp")) as client:
            with pytest.raises(NoReply, match="without a JSON-RPC response"):
                await client.call_tool("lie", b"{}")
            assert b'"1"' in (await client.call_tool("add", b'{"a":1}')).result

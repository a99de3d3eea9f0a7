"""DeltaClient over Streamable HTTP: against our server in both eras, and against servers that misbehave."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio

from delta_actors.mcp import HttpParameters, NoReply, NotSent, RpcError, open_http
from tests.mcp.samples import Log, sample_server
from tests.mcp.web import listening, site

CAPABILITIES = b'{"elicitation":{},"roots":{}}'


async def answer_questions(method: str, params: bytes) -> bytes:
    if method == "roots/list":
        return b'{"roots":[{"uri":"file:///home"}]}'
    return b'{"action":"accept","content":{"name":"Ada"}}'


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_our_client_and_our_server_agree_and_work_in_both_eras(era: Any) -> None:
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str) -> None:
        heard.append(progress)

    async with (
        site(sample_server(Log())) as web,
        open_http(HttpParameters(web.url, era=era, capabilities=CAPABILITIES)) as client,
    ):
        assert (client.era, client.server_info.name, client.pid) == (era, "sample", None)
        assert json.loads((await client.list_tools())[0])["name"] == "add"
        assert b'"result":3' in (await client.call_tool("add", b'{"a":1,"b":2}')).result
        await client.call_tool("steps", b'{"to":3}', on_progress=on_progress)
        assert heard == [1, 2, 3]
        reply = await client.call_tool("greet", b"{}", on_question=answer_questions)
        assert b"Hello Ada of file:///home" in reply.result
        with pytest.raises(RpcError) as caught:
            await client.call_tool("nothing", b"{}")
        assert caught.value.code == -32602


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_cancelled_call_stops_at_the_server(era: Any) -> None:
    """acceptance 48: by closing the stream, or by a notification."""
    log = Log()
    async with site(sample_server(log)) as web, open_http(HttpParameters(web.url, era=era)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait", b"{}")
            while not log.started:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            await log.cancelled.wait()
        assert (await client.call_tool("add", b'{"a":1,"b":1}')).result


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_change_of_tools_is_heard(era: Any) -> None:
    server = sample_server(Log())
    heard = trio.Event()
    async with site(server) as web, open_http(HttpParameters(web.url, era=era)) as client:
        client.on_tools_changed = heard.set
        with trio.fail_after(30):
            while not len(server.subscribers):
                await trio.sleep(0.01)
            server.tools_changed()
            await heard.wait()


async def test_many_calls_at_once_keep_their_answers_apart() -> None:
    """acceptance 53."""
    async with site(sample_server(Log())) as web, open_http(HttpParameters(web.url)) as client:

        async def call(number: int) -> None:
            arguments = json.dumps({"text": f"<{number}>", "delay": (number % 7) / 50}).encode()
            assert f"<{number}>".encode() in (await client.call_tool("echo", arguments)).result

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, number)


@dataclass
class Fake:
    """A small server: `answer` gets every JSON-RPC message and returns a whole HTTP response, or None to hang up."""

    answer: Callable[[Fake, str, dict[str, str], dict[str, Any]], bytes | None]
    url: str = ""
    methods: list[str] = field(default_factory=list)
    seen: list[dict[str, str]] = field(default_factory=list)

    async def serve(self, stream: trio.SocketStream) -> None:
        data = b""
        async with stream:
            while True:
                while b"\r\n\r\n" not in data:
                    more = await stream.receive_some(65536)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                while len(data) < int(headers.get("content-length", "0")):
                    data += await stream.receive_some(65536)
                length = int(headers.get("content-length", "0"))
                body, data = data[:length], data[length:]
                message = json.loads(body) if body else {}
                verb = first.split()[0]
                self.methods.append(message.get("method", verb))
                self.seen.append(headers)
                response = self.answer(self, verb, headers, message)
                if response is None:
                    return
                await stream.send_all(response)
                if b"connection: close" in response:
                    return


def http(status: int, body: Any = b"", **headers: str) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": "application/json", "content-length": str(len(text))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + text


def result(message: dict[str, Any], value: dict[str, Any], **headers: str) -> bytes:
    return http(200, {"jsonrpc": "2.0", "id": message["id"], "result": value}, **headers)


def error(status: int, code: int, message: dict[str, Any], data: Any = None) -> bytes:
    body = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": "no", "data": data}}
    return http(status, body)


def legacy(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
    """A legacy server with a session; it knows nothing of the modern era."""
    if verb != "POST":
        return http(405)
    match message.get("method"):
        case "server/discover":
            return http(400, b"Bad Request: no session")
        case "initialize":
            session = f"s{fake.methods.count('initialize')}"
            value = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "old"}}
            return result(message, value, mcp_session_id=session)
        case "notifications/initialized" | "notifications/cancelled":
            return http(202)
        case _:
            return result(message, {"content": [], "session": headers.get("mcp-session-id")})


@asynccontextmanager
async def faked(answer: Callable[..., bytes | None]) -> AsyncGenerator[Fake, None]:
    fake = Fake(answer)
    with listening() as listener:
        fake.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        own = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, fake.serve, [own]))
            yield fake
            nursery.cancel_scope.cancel()


async def test_a_legacy_server_is_recognised_and_its_session_used_and_ended() -> None:
    """acceptance 55: one session for all calls, ended with DELETE."""
    async with faked(legacy) as fake:
        async with open_http(HttpParameters(fake.url, headers={"x-own": "1"})) as client:
            assert (client.era, client.protocol_version, client.server_info.name) == ("legacy", "2025-06-18", "old")
            for _ in range(20):
                assert json.loads((await client.call_tool("t", b"{}")).result)["session"] == "s1"
        assert fake.methods.count("initialize") == 1
        assert fake.methods[-1] == "DELETE"
        assert fake.seen[-1]["mcp-session-id"] == "s1"
        assert fake.seen[-1]["mcp-protocol-version"] == "2025-06-18"
        assert all(headers["x-own"] == "1" for headers in fake.seen)


def unknown(said: str) -> bytes:
    return http(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": f"Bad Request: {said}"}})


@pytest.mark.parametrize(
    "refusal",
    [
        http(404),
        unknown("No valid session ID provided"),
        unknown("Server not initialized"),
        http(400, b"Invalid or missing session ID", content_type="text/plain"),
    ],
    ids=["404", "no valid session", "not initialized", "plain text"],
)
async def test_a_forgotten_session_is_begun_again_once_and_the_call_sent_again(refusal: bytes) -> None:
    """acceptance 43, 44: the call was not accepted, whether the server says so as the protocol wants it or not."""

    def forgets(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        if message.get("method") == "tools/call" and headers["mcp-session-id"] == "s1":
            return refusal
        return legacy(fake, verb, headers, message)

    async with faked(forgets) as fake, open_http(HttpParameters(fake.url)) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.call_tool, "t", b"{}")
        assert fake.methods.count("initialize") == 2


async def test_a_server_that_forgets_every_session_is_not_asked_forever() -> None:
    def forgets(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        return http(404) if message.get("method") == "tools/call" else legacy(fake, verb, headers, message)

    async with faked(forgets) as fake, open_http(HttpParameters(fake.url)) as client:
        with pytest.raises(NotSent):
            await client.call_tool("t", b"{}")
        assert fake.methods.count("tools/call") == 2


async def test_an_error_of_a_call_about_some_session_of_its_own_is_that_calls_error() -> None:
    def refuses(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        if message.get("method") == "tools/call":
            body = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": "no browser session"}}
            return http(400, body)
        return legacy(fake, verb, headers, message)

    async with faked(refuses) as fake, open_http(HttpParameters(fake.url)) as client:
        with pytest.raises(RpcError, match="no browser session"):
            await client.call_tool("t", b"{}")
        assert fake.methods.count("initialize") == fake.methods.count("tools/call") == 1


NUMBERED = [str(number) for number in range(16)]
STREAM = {"content_type": "text/event-stream"}


@pytest.mark.parametrize(
    ("response", "kind", "said"),
    [
        (lambda _: None, NoReply, "broke"),
        (lambda m: result(m, {}, connection="close")[:-5], NoReply, "broke"),
        (lambda _: http(200, b"<html>", content_type="text/html"), NoReply, "<html>"),
        (lambda _: http(200, b"data: junk\n\n", **STREAM), NoReply, "cannot be read.*junk"),
        (
            lambda _: http(200, b"event: ping\ndata: now\n\nid: 1\ndata:\n\n", **STREAM),
            NoReply,
            "the response stream ended",
        ),
        (lambda _: http(202), NoReply, "202"),
        (lambda _: http(500, b"trouble"), NoReply, "trouble"),
        (lambda _: http(503, b"busy", retry_after="7"), NotSent, "busy"),
        (lambda _: http(429, b"slow down"), NotSent, "slow down"),
        (lambda _: http(401, b"who are you"), NotSent, "who are you"),
        (lambda _: http(302, b"", location="http://evil.test/"), NotSent, "302"),
        (lambda m: error(400, -32602, m), RpcError, "no"),
        (lambda m: error(200, 4711, m), RpcError, "no"),
        (lambda m: error(500, -32603, m), RpcError, "no"),
        (lambda _: http(200, b" " * 3000), NoReply, "longer than 2000"),
        (lambda _: http(200, b"data: " + b"x" * 3000, **STREAM), NoReply, "more than 2000"),
    ],
    ids=NUMBERED,
)
async def test_sent_and_refused_and_unknown_are_told_apart(
    response: Callable[[dict[str, Any]], bytes | None], kind: type[Exception], said: str
) -> None:
    """acceptance 44."""

    def answer(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        return response(message) if message.get("method") == "tools/call" else legacy(fake, verb, headers, message)

    async with faked(answer) as fake, open_http(HttpParameters(fake.url, max_body=2000)) as client:
        with pytest.raises(kind, match=said) as caught:
            await client.call_tool("t", b"{}")
        if isinstance(caught.value, NotSent) and said == "busy":
            assert (caught.value.retry_after, caught.value.status) == (7, 503)
        assert fake.methods.count("tools/call") == 1


@pytest.mark.parametrize(
    ("discover", "opens"),
    [
        (lambda m: error(404, -32601, m), True),
        (lambda m: error(400, -32600, m), True),
        (lambda m: error(200, -32602, m), True),
        (lambda m: error(400, -32022, m, {"supported": ["2025-06-18"]}), True),
        (lambda m: result(m, {"supportedVersions": ["2025-11-25"], "capabilities": {}}), True),
        (lambda m: error(400, -32022, m, {"supported": ["2031-01-01"]}), False),
        (lambda _: http(405), True),
        (lambda _: http(401), False),
        (lambda _: http(403), False),
        (lambda _: http(503), False),
        (lambda _: http(500), False),
        (lambda _: http(502), False),
        (lambda m: error(400, -32020, m), False),
        (lambda m: error(400, -32021, m), False),
    ],
    ids=[str(number) for number in range(14)],
)
async def test_only_what_proves_a_legacy_server_leads_to_the_handshake(
    discover: Callable[[dict[str, Any]], bytes], opens: bool
) -> None:
    """Spec 2.3; acceptance 56."""

    def answer(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        is_discover = message.get("method") == "server/discover"
        return discover(message) if is_discover else legacy(fake, verb, headers, message)

    async with faked(answer) as fake:
        if opens:
            async with open_http(HttpParameters(fake.url)) as client:
                assert client.era == "legacy"
        else:
            with pytest.raises(NotSent):
                async with open_http(HttpParameters(fake.url)):
                    pass
        assert ("initialize" in fake.methods) is opens


async def test_a_modern_server_gets_the_headers_that_mirror_the_request() -> None:
    """acceptance 57."""

    def answer(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        if message["method"] == "server/discover":
            return result(message, {"supportedVersions": ["2026-07-28"], "capabilities": {}})
        return result(message, {"content": []})

    async with faked(answer) as fake, open_http(HttpParameters(fake.url)) as client:
        await client.call_tool("größe", b"{}")
        headers = fake.seen[-1]
        assert (headers["mcp-protocol-version"], headers["mcp-method"]) == ("2026-07-28", "tools/call")
        assert headers["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
        assert "mcp-session-id" not in headers


async def test_nobody_at_the_address_is_not_sent() -> None:
    with listening() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    for address in (url, "http://no-such-host.invalid/mcp", "nonsense://x"):
        with pytest.raises(NotSent):
            async with open_http(HttpParameters(address, connect_timeout=5)):
                pass


async def test_a_server_that_never_answers_is_given_up() -> None:
    async def silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    serve: Callable[..., Awaitable[None]] = trio.serve_listeners
    with listening() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        own = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, silent, [own])
            with pytest.raises(NotSent, match=r"within 0\.4 s"):
                async with open_http(HttpParameters(url, probe_timeout=0.1, start_timeout=0.4)):
                    pass
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["cut", "refused"])
async def test_a_stream_of_changes_that_breaks_is_opened_again(how: str, autojump_clock: Any) -> None:
    def answer(fake: Fake, verb: str, headers: dict[str, str], message: dict[str, Any]) -> bytes | None:
        if verb != "GET":
            return legacy(fake, verb, headers, message)
        if how == "refused":
            return http(503)
        return (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\nconnection: close\r\n\r\n:\n"
        )

    async with faked(answer) as fake, open_http(HttpParameters(fake.url, era="legacy")) as client:
        with trio.fail_after(300):
            while fake.methods.count("GET") < 3:
                await trio.sleep(1)
        assert (await client.call_tool("add", b"{}")).result

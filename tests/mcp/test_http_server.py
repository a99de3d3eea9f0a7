"""Streamable HTTP served by hypercorn under trio: the ladder, sessions, streams, cancellation, limits, shutdown."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import pytest
import trio

from delta_actors.mcp import ServerSettings
from delta_protocol.errors import Refused
from delta_protocol.mcp import sse
from delta_protocol.wire.message import Principal
from tests.mcp.samples import Log, modern, note, request, sample_server
from tests.mcp.web import events, listening, raw_request, site

GREET: dict[str, Any] = {"elicitation": {}, "roots": {}}


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"),
    [
        (modern(1, "tools/list"), {}, 200, None),
        (modern(1, "server/discover"), {"mcp-session-id": "stray", "last-event-id": "1"}, 200, None),
        (modern(1, "initialize"), {}, 404, -32601),
        (modern(1, "resources/list"), {}, 404, -32601),
        (modern(1, "tools/call", name="nothing"), {}, 200, -32602),
        (modern(1, "tools/list"), {"mcp-method": "tools/call"}, 400, -32020),
        (modern(1, "tools/list"), {"mcp-protocol-version": "2025-11-25"}, 400, -32020),
        (request(1, "tools/list"), {}, 400, -32602),
        (modern(1, "tools/call", {"io.modelcontextprotocol/clientCapabilities": {}}, name="greet"), {}, 400, -32021),
        (modern(1, "tools/call", name="fail", arguments={"kind": "overloaded"}), {}, 503, 42901),
        (note("notifications/cancelled", requestId=1), {}, 202, None),
    ],
)
async def test_modern_requests_get_the_status_of_their_error(
    message: dict[str, Any], headers: dict[str, str], status: int, code: int | None
) -> None:
    """Spec 1.2, 1.4."""
    async with site(sample_server(Log())) as web:
        answer = await web.modern(message, headers)
        assert answer.status_code == status
        assert "mcp-session-id" not in answer.headers
        if answer.content:
            assert answer.json()["id"] == 1
            assert answer.json().get("error", {}).get("code") == code


@pytest.mark.parametrize(
    ("message", "headers", "status"),
    [
        (request(1, "tools/list"), {}, 400),
        (request(1, "tools/list"), {"mcp-session-id": "made-up"}, 404),
        (request(1, "tools/list"), {"mcp-protocol-version": "1999-01-01"}, 400),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, {}, 400),
        ([request(1, "ping")], {}, 400),
        (b"{", {}, 400),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {"accept": "text/html"}, 406),
        (b"{}", {"host": "evil.test"}, 403),
        (b"{}", {"origin": "http://evil.test"}, 403),
        (b"{}", {"origin": "null"}, 403),
    ],
)
async def test_what_is_not_accepted_is_refused_with_a_json_rpc_body(
    message: Any, headers: dict[str, str], status: int
) -> None:
    """Spec 2.1, acceptance 69."""
    async with site(sample_server(Log())) as web:
        answer = await web.post(message, headers)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]


async def test_other_methods_and_paths_are_refused() -> None:
    async with site(sample_server(Log())) as web:
        assert (await web.http.get(web.url)).status_code == 405
        assert (await web.http.delete(web.url)).status_code == 405
        assert (await web.http.put(web.url)).status_code == 405
        assert (await web.http.post(web.url + "/other", json={})).status_code == 404


async def test_a_legacy_session_works_ends_and_is_unknown_afterwards() -> None:
    async with site(sample_server(Log())) as web:
        headers = await web.begin()
        assert headers["mcp-session-id"].isascii()
        answer = await web.post(request(1, "tools/call", name="add", arguments={"a": 1, "b": 2}), headers)
        assert answer.json()["result"]["structuredContent"] == {"result": 3}
        assert "resultType" not in answer.json()["result"]
        assert (await web.http.delete(web.url, headers=headers)).status_code == 200
        answer = await web.post(request(2, "tools/list"), headers)
        assert (answer.status_code, answer.json()["id"]) == (404, 2)
        # A client that begins anew may still send the session that is gone.
        hello = request(3, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t"})
        answer = await web.post(hello, headers)
        assert answer.status_code == 200
        assert answer.headers["mcp-session-id"] != headers["mcp-session-id"]


async def test_another_server_with_the_same_key_goes_on_with_a_session() -> None:
    listener = listening()
    async with site(sample_server(Log()), listener=listener) as web:
        headers = await web.begin()
    async with site(sample_server(Log()), listener=listener) as web:
        answer = await web.post(request(1, "tools/call", name="about", arguments={}), headers)
        assert answer.json()["result"]["structuredContent"]["client"] == "t"
    listener.close()


async def test_another_server_with_the_same_key_goes_on_with_a_question() -> None:
    settings = ServerSettings(state_key=b"s" * 32)
    answers = {"content": {"name": "Ann"}, "action": "accept"}, {"roots": [{"uri": "file:///home"}]}
    call: dict[str, Any] = {"name": "greet", "arguments": {}}
    listener = listening()
    result: dict[str, Any] = {}
    for number, given in enumerate((*answers, None)):
        async with site(sample_server(Log(), settings), listener=listener) as web:
            result = (await web.modern(modern(number, "tools/call", **call))).json()["result"]
        if given is not None:
            (question,) = result["inputRequests"]
            call |= {"inputResponses": {question: given}, "requestState": result["requestState"]}
    listener.close()
    assert result["content"][0]["text"] == "Hello Ann of file:///home"


async def test_a_session_that_was_idle_too_long_is_unknown() -> None:
    async with site(sample_server(Log()), session_idle=0.1) as web:
        headers = await web.begin()
        await trio.sleep(0.2)
        assert (await web.post(request(1, "ping"), headers)).status_code == 404


async def test_progress_turns_the_answer_into_a_stream_and_ends_with_it() -> None:
    async with site(sample_server(Log())) as web:
        message = modern(7, "tools/call", {"progressToken": "p"}, name="steps", arguments={"to": 3})
        answer = await web.modern(message)
        assert answer.headers["content-type"] == "text/event-stream"
        heard = events(answer)
        assert [item["params"]["progress"] for item in heard[:-1]] == [1, 2, 3]
        assert heard[-1]["id"] == 7
        answer = await web.modern(message, {"accept": "application/json"})
        assert answer.json()["id"] == 7
        answer = await web.modern(modern(8, "tools/list"), {"accept": "text/event-stream"})
        assert events(answer)[0]["id"] == 8


async def test_a_long_silence_becomes_a_stream_that_is_kept_alive() -> None:
    async with site(sample_server(Log()), patience=0.05, keep_alive=0.05) as web:
        message = modern(1, "tools/call", name="echo", arguments={"text": "late", "delay": 0.5})
        answer = await web.modern(message)
        assert answer.text.count(sse.KEEP_ALIVE.decode()) >= 2
        assert events(answer)[0]["result"]["content"][0]["text"] == "late"


async def leave_early(web: Any, message: dict[str, Any], headers: dict[str, str], log: Log) -> None:
    with trio.move_on_after(60) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(web.post, message, headers)
            while not log.started:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught


async def test_a_modern_client_that_leaves_cancels_its_request() -> None:
    """acceptance 48."""
    log = Log()
    async with site(sample_server(log)) as web:
        message = modern(1, "tools/call", name="wait", arguments={})
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "wait"}
        await leave_early(web, message, headers, log)
        with trio.fail_after(30):
            await log.cancelled.wait()


async def test_a_legacy_client_that_leaves_cancels_nothing_but_a_notification_does() -> None:
    log = Log()
    async with site(sample_server(log)) as web:
        headers = await web.begin()
        await leave_early(web, request(1, "tools/call", name="wait", arguments={"seconds": 0.5}), headers, log)
        with trio.fail_after(30):
            while not log.finished:
                await trio.sleep(0.01)
        assert not log.cancelled.is_set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(web.post, request(2, "tools/call", name="wait", arguments={}), headers)
            while log.started < 2:
                await trio.sleep(0.01)
            assert (await web.post(note("notifications/cancelled", requestId=2), headers)).status_code == 202
        assert log.cancelled.is_set()


async def test_a_legacy_client_is_asked_on_the_stream_of_its_call() -> None:
    """acceptance 51."""
    async with site(sample_server(Log())) as web:
        headers = await web.begin(GREET)
        call = request(1, "tools/call", name="greet", arguments={})
        given = headers | {"content-type": "application/json"}
        async with web.http.stream("POST", web.url, json=call, headers=given) as stream:
            done = None
            async for line in stream.aiter_lines():
                if not line.startswith("data: "):
                    continue
                message = json.loads(line[6:])
                if message.get("method") == "elicitation/create":
                    result: dict[str, Any] = {"action": "accept", "content": {"name": "Ada"}}
                elif message.get("method") == "roots/list":
                    result = {"roots": [{"uri": "file:///"}]}
                else:
                    done = message
                    continue
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                other = await web.begin(GREET)
                assert (await web.post(answer | {"result": {"action": "forged"}}, other)).status_code == 202
                assert (await web.post(answer, headers)).status_code == 202
        assert done is not None
        assert done["result"]["content"][0]["text"] == "Hello Ada of file:///"


async def test_changed_tools_reach_the_legacy_stream_and_the_modern_subscription() -> None:
    server = sample_server(Log())
    async with site(server) as web:
        headers = await web.begin()
        told: list[str] = []

        async def hear(method: str, body: Any, given: dict[str, str]) -> None:
            async with web.http.stream(method, web.url, json=body, headers=given) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        message = json.loads(line[6:])
                        told.append(message.get("method", "result"))

        listen = modern("s", "subscriptions/listen", notifications={"toolsListChanged": True})
        modern_headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, "GET", None, headers | {"accept": "text/event-stream"})
            nursery.start_soon(hear, "POST", listen, modern_headers)
            while len(server.subscribers) < 2:
                await trio.sleep(0.01)
            server.tools_changed()
            while told.count("notifications/tools/list_changed") < 2:
                await trio.sleep(0.01)
            web.shutdown.set()
        assert told[-1] == "result"


async def test_two_hundred_clients_with_equal_ids_each_get_their_own_answer() -> None:
    """acceptance 53."""
    async with site(sample_server(Log())) as web:
        right: list[int] = []

        async def client(number: int, headers: dict[str, str] | None) -> None:
            arguments = {"text": f"token {number}", "delay": random.random() / 5}
            if headers is None:
                answer = await web.modern(modern(2, "tools/call", name="echo", arguments=arguments))
            else:
                answer = await web.post(request(2, "tools/call", name="echo", arguments=arguments), headers)
            assert answer.json()["result"]["content"][0]["text"] == f"token {number}"
            right.append(number)

        sessions = [await web.begin() for _ in range(100)]
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(client, number, sessions[number // 2] if number % 2 else None)
        assert len(right) == 200


async def test_more_requests_than_there_is_room_for_are_told_to_come_back() -> None:
    log = Log()
    async with site(sample_server(log), max_requests=2) as web:
        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(web.modern, modern(number, "tools/call", name="wait", arguments={"seconds": 1}))
            while log.started < 2:
                await trio.sleep(0.01)
            answer = await web.modern(modern(9, "tools/list"))
            assert (answer.status_code, answer.json()["id"]) == (503, 9)
            assert int(answer.headers["retry-after"]) >= 1
        assert (await web.modern(modern(9, "tools/list"))).status_code == 200


async def test_a_body_over_the_limit_is_refused_announced_or_not() -> None:
    """Pitfall 5."""

    async with site(sample_server(Log()), max_body=20_000) as web:
        chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        chunked = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        chunked += b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 6
        for sent in (raw_request(modern(1, "tools/list"), 40_000), chunked):
            stream = await trio.open_tcp_stream("127.0.0.1", web.port)
            await stream.send_all(sent)
            with trio.fail_after(30):
                assert b" 413 " in await stream.receive_some(1000)
            await stream.aclose()
        assert (await web.modern(modern(1, "tools/list"))).status_code == 200


async def test_a_body_that_never_ends_is_cut_at_the_deadline() -> None:
    async with site(sample_server(Log(), ServerSettings(deadline=0.3))) as web:
        stream = await trio.open_tcp_stream("127.0.0.1", web.port)
        await stream.send_all(raw_request(modern(1, "tools/list"), 500))
        with trio.fail_after(30):
            assert b" 504 " in await stream.receive_some(1000)
        await stream.aclose()


async def test_the_deadline_holds_over_the_whole_request() -> None:
    async with site(sample_server(Log(), ServerSettings(deadline=0.2))) as web:
        answer = await web.modern(modern(1, "tools/call", name="wait", arguments={}))
        assert (answer.status_code, answer.json()["id"]) == (504, 1)
        assert answer.json()["error"]["code"] == 42902


async def test_credentials_decide_who_calls_and_whose_session_it_is() -> None:
    async def authenticate(token: str | None, peer: str | None) -> Principal:
        assert peer == "127.0.0.1"
        if token is None:
            raise Refused("a token is needed")
        if token == "weak":
            raise Refused("not allowed", error="insufficient_scope")
        if token not in ("ada", "bob"):
            raise Refused("unknown token", error="invalid_token")
        return Principal(token, "token")

    async with site(sample_server(Log()), authenticate=authenticate) as web:
        assert (await web.modern(modern(1, "tools/list"))).headers["www-authenticate"] == 'Bearer realm="mcp"'
        answer = await web.modern(modern(1, "tools/list"), {"authorization": "Bearer wrong"})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (
            401,
            'Bearer realm="mcp", error="invalid_token", error_description="unknown token"',
        )
        assert (await web.modern(modern(1, "tools/list"), {"authorization": "Bearer weak"})).status_code == 403
        web.http.headers["authorization"] = "bearer ada"
        answer = await web.modern(modern(1, "tools/call", name="about", arguments={}))
        assert answer.json()["result"]["structuredContent"]["principal"] == "ada"
        headers = await web.begin()
        assert (await web.post(request(1, "ping"), headers)).status_code == 200
        web.http.headers["authorization"] = "Bearer bob"
        assert (await web.post(request(1, "ping"), headers)).status_code == 404


async def test_a_conversation_is_the_session_or_the_client_of_a_principal() -> None:
    async with site(sample_server(Log())) as web:

        async def conversation(headers: dict[str, str] | None, name: str = "") -> str:
            if headers is not None:
                answer = await web.post(request(1, "tools/call", name="about", arguments={}), headers)
            else:
                meta = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
                answer = await web.modern(modern(1, "tools/call", meta, name="about", arguments={}))
            return str(answer.json()["result"]["structuredContent"]["conversation"])

        first, second = await web.begin(), await web.begin()
        assert await conversation(first) == await conversation(first) != await conversation(second)
        assert await conversation(None, "a") == await conversation(None, "a") != await conversation(None, "b")


async def test_a_request_in_progress_finishes_after_shutdown_began() -> None:
    log = Log()
    async with site(sample_server(log)) as web:
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                answer = await web.modern(modern(1, "tools/call", name="wait", arguments={"seconds": 0.5}))
                assert answer.json()["result"]["content"][0]["text"] == "waited"

            nursery.start_soon(call)
            while not log.started:
                await trio.sleep(0.01)
            web.shutdown.set()


async def test_a_connection_that_the_client_wants_closed_is_closed_after_the_answer() -> None:
    async with site(sample_server(Log())) as web:
        sent = raw_request(modern(1, "tools/list")).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
        stream = await trio.open_tcp_stream("127.0.0.1", web.port)
        await stream.send_all(sent)
        with trio.fail_after(20):
            answer = b"".join([part async for part in stream])
        assert b" 200 " in answer
        await stream.aclose()


async def test_a_pipelined_second_request_is_answered_and_a_vanished_client_noticed() -> None:
    """Pitfall 3: with a second request queued a disconnect goes unseen until something is sent."""
    log = Log()
    async with site(sample_server(log), patience=0.1, keep_alive=0.1) as web:
        stream = await trio.open_tcp_stream("127.0.0.1", web.port)
        await stream.send_all(raw_request(modern(1, "tools/call", name="wait", arguments={})) * 2)
        while not log.started:
            await trio.sleep(0.01)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        await stream.aclose()
        with trio.fail_after(30):
            await log.cancelled.wait()


async def test_junk_on_the_socket_never_ends_the_server() -> None:
    async with site(sample_server(Log())) as web:
        noise = random.Random(7)
        for size in (1, 100, 5_000, 100_000):
            stream = await trio.open_tcp_stream("127.0.0.1", web.port)
            with trio.move_on_after(5):
                try:
                    await stream.send_all(noise.randbytes(size) + b"\r\n\r\n")
                    await stream.send_eof()
                    while await stream.receive_some(1000):
                        pass
                except trio.BrokenResourceError:
                    pass
            await trio.aclose_forcefully(stream)
        assert (await web.modern(modern(1, "tools/list"))).status_code == 200


async def test_a_session_that_its_client_ends_cancels_what_is_in_progress() -> None:
    log = Log()
    async with site(sample_server(log)) as web, trio.open_nursery() as nursery:
        headers = await web.begin()
        nursery.start_soon(web.post, request(1, "tools/call", name="wait", arguments={}), headers)
        while not log.started:
            await trio.sleep(0.01)
        assert (await web.http.delete(web.url, headers=headers)).status_code == 200
        with trio.fail_after(10):
            await log.cancelled.wait()


async def test_a_request_with_a_length_and_chunks_is_refused_and_its_connection_closed() -> None:
    """RFC 9112 6.1: what hides behind it is no request."""
    body = json.dumps(modern(1, "tools/list")).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
    sent = head + b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    async with site(sample_server(Log())) as web:
        for request_bytes, least in ((sent, 1), (sent + sent, 0)):
            stream = await trio.open_tcp_stream("127.0.0.1", web.port)
            answer = b""
            with trio.fail_after(10):
                async with stream:
                    await stream.send_all(request_bytes)
                    while more := await stream.receive_some(10_000):
                        answer += more
            assert least <= answer.count(b"HTTP/1.1") == answer.count(b"HTTP/1.1 400 ") <= 1

"""What an endpoint refuses before it works, and what browsers are told: rates, proxies, origins, deadlines (CS-11)."""

from __future__ import annotations

import json

import pytest
import trio

from delta_actors.mcp import ServerSettings
from delta_protocol.errors import Refused
from delta_protocol.mcp.errors import DEADLINE_EXCEEDED, OVERLOADED
from delta_protocol.wire.message import Principal
from tests.mcp.samples import Log, modern, request, sample_server
from tests.mcp.web import raw_request, site

APP = "https://app.example"


async def authenticate(token: str | None, _peer: str | None) -> Principal:
    await trio.lowlevel.checkpoint()
    if token not in ("ada", "bob"):
        raise Refused("unknown token", error="invalid_token")
    return Principal(token, "token")


async def test_more_requests_than_the_rate_allows_are_told_how_long_to_wait() -> None:
    """CS-11-03."""
    async with site(sample_server(Log()), rate_limit=3) as web:
        for number in range(3):
            assert (await web.modern(modern(number, "tools/list"))).status_code == 200
        answer = await web.modern(modern(4, "tools/list"))
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert answer.json()["error"]["code"] == OVERLOADED


async def test_each_principal_has_its_own_rate() -> None:
    async with site(sample_server(Log()), authenticate=authenticate, rate_limit=1) as web:
        statuses = [
            (await web.modern(modern(1, "tools/list"), {"authorization": f"Bearer {token}"})).status_code
            for token in ("ada", "bob", "ada", "bob")
        ]
        assert statuses == [200, 200, 429, 429]


async def test_failed_attempts_of_one_address_are_counted_and_end_even_with_a_good_token() -> None:
    async with site(sample_server(Log()), authenticate=authenticate, rate_limit=2, proxies=1) as web:

        async def attempt(token: str, address: str) -> int:
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": f"9.9.9.9, {address}"}
            return (await web.modern(modern(1, "tools/list"), headers)).status_code

        assert [await attempt("guess", "192.0.2.1") for _ in range(3)] == [401, 401, 429]
        assert await attempt("ada", "192.0.2.1") == 429
        assert await attempt("ada", "192.0.2.2") == 200


async def test_a_client_cannot_choose_the_address_that_its_rate_is_counted_by() -> None:
    """The nearest proxy's entry counts, whatever a client wrote before it (framework 12.4)."""
    async with site(sample_server(Log()), authenticate=authenticate, rate_limit=1, proxies=1) as web:
        statuses: list[int] = []
        for number in range(3):
            headers = {"x-forwarded-for": f"10.0.0.{number}, 192.0.2.1", "authorization": "Bearer no"}
            statuses.append((await web.modern(modern(1, "tools/list"), headers)).status_code)
        assert statuses == [401, 429, 429]


async def test_an_open_endpoint_behind_a_proxy_still_serves_this_machine_alone() -> None:
    async with site(sample_server(Log()), proxies=1, proxy_header="forwarded") as web:
        assert (await web.modern(modern(1, "tools/list"), {"forwarded": "for=192.0.2.1"})).status_code == 403
        assert (await web.modern(modern(1, "tools/list"), {"forwarded": 'for="[::1]:9"'})).status_code == 200


async def test_pages_of_allowed_origins_may_call_and_read_what_they_need() -> None:
    """CS-11-07, CS-11-08, CS-11-09."""
    async with site(sample_server(Log()), origins=(APP,), authenticate=authenticate) as web:
        for token, status in (("ada", 200), ("nobody", 401)):
            headers = {"origin": APP, "authorization": f"Bearer {token}"}
            answer = await web.modern(modern(1, "tools/list"), headers)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, APP)
            exposed = answer.headers["access-control-expose-headers"].lower()
            assert "mcp-session-id" in exposed
            assert "www-authenticate" in exposed
            assert "Origin" in answer.headers["vary"]
        refused = await web.modern(modern(1, "tools/list"), {"origin": "https://evil.test"})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_a_preflight_needs_no_token_and_names_the_headers_of_both_eras() -> None:
    """CS-11-11, CS-11-12."""
    async with site(sample_server(Log()), origins=(APP,), authenticate=authenticate) as web:
        asked = {"origin": APP, "access-control-request-method": "POST"}
        asked["access-control-request-headers"] = "content-type, mcp-param-region, x-other"
        answer = await web.http.options(web.url, headers=asked)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == APP
        assert "POST" in answer.headers["access-control-allow-methods"]
        allowed = answer.headers["access-control-allow-headers"].lower().split(", ")
        needed = {"content-type", "accept", "authorization", "mcp-protocol-version", "mcp-session-id", "mcp-method"}
        assert needed | {"mcp-name", "last-event-id", "mcp-param-region"} <= set(allowed)
        assert "x-other" not in allowed
        assert (await web.http.options(web.url, headers=asked | {"origin": "https://evil.test"})).status_code == 403


@pytest.mark.parametrize("local", [True, False])
async def test_origins_of_loopback_can_be_left_out(local: bool) -> None:
    """CS-11-10."""
    async with site(sample_server(Log()), local_origins=local) as web:
        answer = await web.modern(modern(1, "tools/list"), {"origin": "http://localhost:3000"})
        assert answer.status_code == (200 if local else 403)
        assert (await web.modern(modern(1, "tools/list"))).status_code == 200


@pytest.mark.parametrize("body", [b"42", b'"hello"', b"[1,2,3]", b"null"])
async def test_json_that_is_no_message_is_refused(body: bytes) -> None:
    """CS-11-13."""
    async with site(sample_server(Log())) as web:
        answer = await web.post(body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize(("version", "status"), [("2025-06-18", 200), ("2025-03-26", 200), ("1999-01-01", 400)])
async def test_versions_of_the_header_are_known_or_explained(version: str, status: int) -> None:
    """CS-11-14, CS-11-15."""
    async with site(sample_server(Log())) as web:
        headers = await web.begin() | {"mcp-protocol-version": version}
        answer = await web.post(request(1, "tools/list"), headers)
        assert answer.status_code == status
        assert status == 200 or answer.json()["error"]["message"]


async def test_a_legacy_call_that_is_late_is_answered_504_and_its_handler_cancelled() -> None:
    """CS-11-04."""
    log = Log()
    async with site(sample_server(log, ServerSettings(deadline=0.2))) as web:
        headers = await web.begin()
        answer = await web.post(request(3, "tools/call", name="wait", arguments={}), headers)
        assert (answer.status_code, answer.json()["id"]) == (504, 3)
        assert log.cancelled.is_set()


async def test_a_check_of_credentials_that_never_ends_is_cut_at_the_deadline() -> None:
    async def undecided(_token: str | None, _peer: str | None) -> Principal:
        await trio.sleep_forever()
        raise AssertionError

    async with site(sample_server(Log(), ServerSettings(deadline=0.2)), authenticate=undecided) as web:
        answer = await web.modern(modern(1, "tools/list"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, DEADLINE_EXCEEDED)


async def test_requests_that_come_during_the_shutdown_are_refused_while_others_finish() -> None:
    log = Log()
    async with site(sample_server(log), graceful=20.0) as web:
        slow = await trio.open_tcp_stream("127.0.0.1", web.port)
        late = await trio.open_tcp_stream("127.0.0.1", web.port)
        async with slow, late:
            await late.send_all(raw_request(modern(1, "tools/list")))
            assert b"sample" in await answered(late)
            await slow.send_all(raw_request(modern(2, "tools/call", name="wait", arguments={"seconds": 0.5})))
            while not log.started:
                await trio.sleep(0.01)
            web.shutdown.set()
            with trio.fail_after(20):
                await late.send_all(raw_request(modern(3, "tools/list")))
                head, _, body = b"".join([part async for part in late]).partition(b"\r\n\r\n")
                assert b" 503 " in head
                assert b"retry-after" in head.lower()
                assert b"connection: close" in head.lower()
                assert json.loads(body)["error"]["code"] == OVERLOADED
                assert b"waited" in b"".join([part async for part in slow])
        with trio.fail_after(20):
            await web.done.wait()


async def answered(stream: trio.SocketStream) -> bytes:
    """Read one answer with a length."""
    data = b""
    with trio.fail_after(20):
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some()
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += await stream.receive_some()
    return body

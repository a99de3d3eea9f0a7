"""CS-11: HTTP against what is too large, too slow, too often, or from elsewhere."""

from __future__ import annotations

import json

from conformance.framework.target import Target
from conformance.framework.wire import INFO, LEGACY, error_of, message_of, request, result_of, text_of

_LISTED, _OTHER = "https://app.example.com", "https://elsewhere.test"
_PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}


def cs_11_01_a_body_too_large_is_413(target: Target) -> None:
    """A body over the limit is 413 and a JSON-RPC error."""
    with target.served("--max-body", "2000") as url, target.web(url=url) as web:
        web.begin()
        response = web.post(b" " * 2001)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == -32600


def cs_11_02_a_body_within_it_is_served(target: Target) -> None:
    """A body of exactly the limit is served."""
    with target.served("--max-body", "2000") as url, target.web(url=url) as web:
        web.begin()
        text = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        response = web.post(text + b" " * (2000 - len(text)))
        assert response.status_code == 200, response.text


def cs_11_03_too_many_requests_are_429(target: Target) -> None:
    """The fourth request of a client that may send three is 429, and says when to come again."""
    with target.served("--rate", "3") as url, target.web(url=url) as web:
        responses = [web.post(_initialize(number)) for number in range(4)]
        assert [response.status_code for response in responses] == [200, 200, 200, 429]
        assert 0 < int(responses[3].headers["retry-after"]) <= 60
        assert error_of(message_of(responses[3], 3))


def cs_11_04_a_tool_too_slow_ends_with_an_error(target: Target) -> None:
    """A tool over the deadline is ended: 504, whose body is a JSON-RPC error with the request's id."""
    with target.served("--deadline", "0.3") as url, target.web(url=url) as web:
        web.begin()
        message = request(7, "tools/call", {"name": "run_command", "arguments": {"command": "sleep 60"}}, "legacy")
        response = web.post(message)
        assert response.status_code == 504
        answer = message_of(response, 7)
        assert answer["id"] == 7
        assert error_of(answer), answer
        assert "result" in web.ask("ping")


def cs_11_05_an_ordinary_request_is_served(target: Target) -> None:
    """With its defaults a server serves an ordinary request."""
    with target.web() as web:
        web.begin()
        assert result_of(web.ask("tools/list"))["tools"]


def cs_11_06_a_tool_that_raises_harms_nobody(target: Target) -> None:
    """After a tool raised, and after junk, the process serves as before. (The tool's error is its result, as in
    CS-03-07; the original's 500 is for its own faults.)"""
    target.need_tools("fail")
    with target.web() as web:
        web.begin()
        assert "intentional demo failure" in text_of(web.ask("tools/call", name="fail", arguments={}))
        assert web.post(b"\xff{").status_code == 400
        assert result_of(web.ask("tools/list"))["tools"]


def cs_11_07_an_origin_that_is_not_listed_is_403(target: Target) -> None:
    """An origin that is not listed is 403."""
    with target.served("--origin", _LISTED) as url, target.web(url=url) as web:
        for origin in (_OTHER, f"{_LISTED}.elsewhere.test", "null", "http://app.example.com"):
            assert web.post(_initialize(), {"Origin": origin}).status_code == 403, origin


def cs_11_08_a_listed_origin_is_served(target: Target) -> None:
    """A listed origin is served, and its browser is told that it may read the answer."""
    with target.served("--origin", _LISTED) as url, target.web(url=url) as web:
        response = web.post(_initialize(), {"Origin": _LISTED})
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == _LISTED
        assert "origin" in response.headers["vary"].lower()
        assert "mcp-session-id" in response.headers["access-control-expose-headers"].lower()


def cs_11_09_no_origin_is_served(target: Target) -> None:
    """A client without an origin is served: it is no browser."""
    with target.served("--origin", _LISTED) as url, target.web(url=url) as web:
        assert web.post(_initialize()).status_code == 200


def cs_11_10_without_a_list_foreign_origins_are_403(target: Target) -> None:
    """Without a list every origin is 403 but those of this machine, where the server is of this machine as well. (The
    official suite asks for that; the original refuses them too, and so does ours if told to.) A foreign host is 403."""
    with target.web() as web:
        assert web.post(_initialize(), {"Origin": _OTHER}).status_code == 403
        assert web.post(_initialize(), {"Origin": "http://localhost.elsewhere.test"}).status_code == 403
        assert web.post(_initialize(), {"Origin": "http://localhost:3000"}).status_code == 200
        assert web.post(_initialize(), {"Host": "elsewhere.test"}).status_code == 403
    if target.ours:
        with target.served("--no-local-origins") as url, target.web(url=url) as web:
            assert web.post(_initialize(), {"Origin": "http://localhost:3000"}).status_code == 403


def cs_11_11_a_listed_origin_may_ask_first(target: Target) -> None:
    """The preflight of a listed origin is answered with the methods and headers that the protocol needs."""
    with target.served("--origin", _LISTED) as url, target.web(url=url) as web:
        response = web.client.options(url, headers={"Origin": _LISTED, **_PREFLIGHT})
        assert response.status_code == 204
        assert response.headers["access-control-allow-origin"] == _LISTED
        assert "POST" in response.headers["access-control-allow-methods"]
        allowed = response.headers["access-control-allow-headers"].lower()
        for name in ("content-type", "authorization", "mcp-protocol-version", "mcp-session-id"):
            assert name in allowed, name


def cs_11_12_others_may_not(target: Target) -> None:
    """The preflight of another origin is 403."""
    with target.served("--origin", _LISTED) as url, target.web(url=url) as web:
        assert web.client.options(url, headers={"Origin": _OTHER, **_PREFLIGHT}).status_code == 403


def cs_11_13_what_is_no_message_is_400(target: Target) -> None:
    """Bodies that are JSON and no message are 400 and -32600; batches too."""
    with target.web() as web:
        web.begin()
        ping = request(1, "ping", {}, "legacy")
        for body in (b"42", b'"hello"', b"[1,2,3]", b"null", b"{}", _json([ping, ping])):
            response = web.post(body)
            assert (response.status_code, response.json()["error"]["code"]) == (400, -32600), body


def cs_11_14_an_unknown_version_is_400(target: Target) -> None:
    """A version header that nobody knows is 400, and the message says which one it was or which are known."""
    with target.web() as web:
        web.begin()
        response = web.post(request(1, "tools/list", {}, "legacy"), {"MCP-Protocol-Version": "1999-01-01"})
        assert response.status_code == 400
        said = response.text
        assert response.json()["error"]["message"]
        assert "1999-01-01" in said or LEGACY in said or "ersion" in said, said


def cs_11_15_earlier_versions_are_served(target: Target) -> None:
    """Sessions of 2025-06-18 and 2025-03-26 are begun under their version and served with its header."""
    for version in ("2025-06-18", "2025-03-26"):
        with target.web() as web:
            assert result_of(web.begin(version))["protocolVersion"] == version
            response = web.post(request(1, "tools/list", {}, "legacy"), {"MCP-Protocol-Version": version})
            assert response.status_code == 200, version


def _initialize(number: int = 0) -> dict[str, object]:
    return request(number, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}, "legacy")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()

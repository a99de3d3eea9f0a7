"""OWN-02: HTTP sessions, and the modern era without any."""

from __future__ import annotations

from conformance.framework.target import Target
from conformance.framework.wire import code_of, error_of, message_of, request, result_of

_LIST = request(1, "tools/list", {}, "legacy")


def own_02_01_an_unknown_session_is_404(target: Target) -> None:
    """A session that the server does not know is 404, so that its client begins anew."""
    with target.web() as web:
        web.begin()
        response = web.post(_LIST, {"Mcp-Session-Id": f"{web.session}x"})
        assert response.status_code == 404
        assert error_of(message_of(response, 1))


def own_02_02_a_deleted_session_is_404(target: Target) -> None:
    """DELETE ends a session: after it the session is 404, and others go on."""
    with target.web() as web, target.web() as other:
        web.begin()
        other.begin()
        assert web.client.delete(web.url, headers=web.headers(None)).status_code in (200, 204)
        assert web.post(_LIST).status_code == 404
        assert web.client.delete(web.url, headers=web.headers(None)).status_code == 404
        assert other.post(_LIST).status_code == 200


def own_02_03_a_modern_request_needs_no_session(target: Target) -> None:
    """A modern request is served without a session, and gets none."""
    with target.web("modern") as web:
        response = web.post(request(1, "tools/list", {}, "modern"))
        assert response.status_code == 200
        assert "mcp-session-id" not in response.headers
        assert result_of(message_of(response, 1))["tools"]


def own_02_04_headers_must_say_what_the_body_says(target: Target) -> None:
    """A modern request whose headers are missing, or say something else than its body, is 400 and -32020."""
    with target.web("modern") as web:
        message = request(1, "tools/list", {}, "modern")
        changes: list[dict[str, str | None]] = [
            {"MCP-Protocol-Version": None},
            {"MCP-Protocol-Version": "2025-11-25"},
            {"Mcp-Method": None},
            {"Mcp-Method": "tools/call"},
        ]
        for each in changes:
            response = web.post(message, each)
            assert response.status_code == 400, each
            assert code_of(message_of(response, 1)) == -32020, each


def own_02_05_content_types_are_looked_at(target: Target) -> None:
    """A body that says it is no JSON is 415, an `Accept` that allows nothing is 406; `q=0` excludes."""
    with target.web() as web:
        web.begin()
        assert web.post(_LIST, {"Content-Type": "text/plain"}).status_code == 415
        assert web.post(_LIST, {"Accept": "text/html"}).status_code == 406
        refused = "application/json;q=0, text/event-stream;q=0"
        assert web.post(_LIST, {"Accept": refused}).status_code == 406


def own_02_06_an_unknown_method_and_path_are_404_or_405(target: Target) -> None:
    """Another path is 404; another HTTP method is 405 and says what is allowed."""
    with target.web() as web:
        assert web.client.post(f"{target.url}/elsewhere", json=_LIST).status_code == 404
        response = web.client.put(target.url, json=_LIST)
        assert response.status_code == 405
        assert "POST" in response.headers["allow"]

"""CS-08: HTTP, its version header and encodings."""

from __future__ import annotations

import json

from conformance.framework.checks import NotApplicable
from conformance.framework.target import Target
from conformance.framework.wire import COMPACT, INFO, LEGACY, expand, message_of, request, result_of, shorten

_BEGIN = request(0, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}, "legacy")
_LIST = request(1, "tools/list", {}, "legacy")
_COMPACT = {"Content-Type": COMPACT, "Accept": f"{COMPACT}, text/event-stream"}


def cs_08_01_initialize_needs_no_version_header(target: Target) -> None:
    """`initialize` without a version header is answered with 200."""
    with target.web() as web:
        response = web.post(_BEGIN, {"MCP-Protocol-Version": None})
        assert response.status_code == 200, response.text
        assert result_of(message_of(response, 0))["protocolVersion"] == LEGACY


def cs_08_02_without_header_and_session_nothing_else_is_served(target: Target) -> None:
    """Another method without version header and session is 400 and a JSON-RPC error; in a session the session's version
    counts. (The original refuses that too, and so all clients of 2025-03-26, who send no such header.)"""
    with target.web() as web:
        response = web.post(_LIST, {"MCP-Protocol-Version": None})
        assert response.status_code == 400
        assert message_of(response, 1)["error"]["code"] == -32600
        web.begin("2025-03-26")
        response = web.post(_LIST, {"MCP-Protocol-Version": None})
        assert response.status_code == 200, response.text


def cs_08_03_compact_json_is_answered_in_kind(target: Target) -> None:
    """A request in compact-json whose `Accept` allows it is answered in it."""
    with target.web() as web:
        web.begin()
        response = web.post(json.dumps(shorten(_LIST)).encode(), _COMPACT)
        _need_compact(response.status_code)
        assert response.headers["content-type"].replace(" ", "") == COMPACT.replace(" ", "")
        assert result_of(expand(response.json()))["tools"]


def cs_08_04_a_session_may_go_over_to_compact_json(target: Target) -> None:
    """A session that begins in JSON may go on in compact-json and back, each answer in the kind of its request."""
    with target.web() as web:
        web.begin()
        plain = result_of(message_of(web.post(_LIST), 1))
        response = web.post(json.dumps(shorten(_LIST)).encode(), _COMPACT)
        _need_compact(response.status_code)
        assert result_of(expand(response.json())) == plain
        assert result_of(message_of(web.post(_LIST), 1)) == plain


def cs_08_05_there_is_no_stream_without_a_session(target: Target) -> None:
    """GET for a stream of events without a session is 405, and says what is allowed."""
    with target.web() as web:
        response = web.client.get(target.url, headers={"Accept": "text/event-stream"})
        assert response.status_code == 405
        assert "POST" in response.headers["allow"]


def _need_compact(status: int) -> None:
    if status in (406, 415):
        raise NotApplicable("the server takes no compact-json over HTTP, and says so")
    assert status == 200, status

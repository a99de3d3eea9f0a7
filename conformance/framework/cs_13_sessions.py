"""CS-13: sessions over HTTP do not touch each other.

Who wants names says so in the session (delta-mcp 0.x) or asks for the index (the extension): both are tried.
"""

from __future__ import annotations

from contextlib import ExitStack

from conformance.framework.checks import NotApplicable
from conformance.framework.target import Target
from conformance.framework.wire import DELTA_MCP, DELTA_MCP_CAPABILITIES, Web, error_of, message_of, request, result_of

_INDEX = "io.github.delta-supervisor.tools/index"


def cs_13_01_initialize_gives_a_session(target: Target) -> None:
    """The answer to `initialize` has a session's id, another one each time, of visible ASCII."""
    with target.web() as one, target.web() as other:
        one.begin()
        other.begin()
        assert one.session
        assert one.session != other.session
        assert all("!" <= character <= "~" for character in one.session)


def cs_13_02_another_session_does_not_change_it(target: Target) -> None:
    """A baseline client that begins does not change what a delta client's session shows."""
    with ExitStack() as stack:
        delta, before = _begin_delta(stack, target)
        stack.enter_context(target.web()).begin()
        assert _names(delta) == before
        assert all("inputSchema" not in tool for tool in before)


def cs_13_03_a_baseline_session_has_full_schemas(target: Target) -> None:
    """A baseline session has full schemas while a delta client's is open."""
    with ExitStack() as stack:
        delta, _ = _begin_delta(stack, target)
        plain = stack.enter_context(target.web())
        plain.begin()
        assert all("inputSchema" in tool for tool in result_of(plain.ask("tools/list"))["tools"])
        assert _names(delta)


def cs_13_04_without_a_session_nobody_has_anothers(target: Target) -> None:
    """Without a session's id nobody is served from another's: 400 in the legacy era, which needs one, or full schemas;
    a modern request, which needs none, gets full schemas."""
    with ExitStack() as stack:
        _begin_delta(stack, target)
        bare = stack.enter_context(target.web())
        response = bare.post(request(1, "tools/list", {}, "legacy"))
        answer = message_of(response, 1)
        if error_of(answer):
            assert response.status_code == 400
        else:
            assert all("inputSchema" in tool for tool in result_of(answer)["tools"])
        modern = stack.enter_context(target.web("modern")).ask("tools/list")
        assert error_of(modern) or all("inputSchema" in tool for tool in result_of(modern)["tools"])


def _begin_delta(stack: ExitStack, target: Target) -> tuple[Web, list[dict[str, object]]]:
    web = stack.enter_context(target.web())
    web.begin(DELTA_MCP, DELTA_MCP_CAPABILITIES)
    return web, _names(web)


def _names(web: Web) -> list[dict[str, object]]:
    """Return the list that a delta client asks for."""
    old = str(web.info["protocolVersion"]).startswith("delta-mcp/")
    answer = web.ask("tools/list" if old else _INDEX)
    if error_of(answer).get("code") == -32601:
        raise NotApplicable("the server shows no names over HTTP")
    tools: list[dict[str, object]] = result_of(answer)["tools"]
    return tools

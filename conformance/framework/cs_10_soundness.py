"""CS-10: the protocol as a whole."""

from __future__ import annotations

from contextlib import suppress

from conformance.framework.checks import NotApplicable
from conformance.framework.target import Target
from conformance.framework.wire import DELTA_MCP_CAPABILITIES, LEGACY, Message, result_of


def cs_10_01_another_major_version_gets_the_baseline(target: Target) -> None:
    """A client of `delta-mcp/9.0.0` gets a baseline answer in JSON: no progressive flag, full schemas."""
    with target.fresh() as peer:
        peer.begin("delta-mcp/9.0.0", DELTA_MCP_CAPABILITIES)
        assert peer.info["protocolVersion"] == LEGACY
        assert "progressiveDisclosure" not in peer.info["capabilities"].get("tools", {})
        assert peer.info.get("encoding", {}).get("format", "json") == "json"
        assert all("inputSchema" in tool for tool in result_of(peer.ask("tools/list"))["tools"])


def cs_10_02_notifications_are_never_answered(target: Target) -> None:
    """Notifications of an unknown method and of `tools/list`, and a request's name without an id, get no answer; the
    session goes on."""
    with target.lines() as lines:
        lines.begin()
        for method in ("no/such/method", "tools/list", "tools/call", "initialize"):
            lines.note(method)
        assert result_of(lines.ask("tools/list"))["tools"] is not None
        assert lines.answers == []


def cs_10_03_hashes_are_not_advertised(target: Target) -> None:
    """`schemaHashReferencing` is not advertised, to anybody."""
    assert all("schemaHashReferencing" not in str(info) for info in _infos(target))


def cs_10_04_execution_is_not_advertised(target: Target) -> None:
    """`codeExecution` is not advertised, to anybody."""
    assert all("codeExecution" not in str(info) for info in _infos(target))


def cs_10_05_a_notification_over_http_is_202(target: Target) -> None:
    """A notification over HTTP is answered with 202 and nothing."""
    with target.web() as web:
        web.begin()
        response = web.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (response.status_code, response.content) == (202, b"")


def _infos(target: Target) -> list[Message]:
    """Return what the server says of itself to each kind of client that it knows."""
    infos = [target.plain.info]
    with suppress(NotApplicable):
        infos.append(target.delta_mcp.info)
    return infos

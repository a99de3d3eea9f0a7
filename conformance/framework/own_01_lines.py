"""OWN-01: stdio in both eras."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager

from conformance.framework.checks import NotApplicable
from conformance.framework.target import Target
from conformance.framework.wire import LEGACY, META, MODERN, Era, Lines, Silent, code_of, error_of, request, result_of

_MISSING = "no/such/method"


def own_01_01_initialize_echoes_a_known_version(target: Target) -> None:
    """`initialize` is answered with the version that was asked for, where it is known, else with one that is."""
    for version in (LEGACY, "2025-06-18", "2025-03-26"):
        with target.lines() as lines:
            assert result_of(lines.begin(version))["protocolVersion"] == version
    with target.lines() as lines:
        assert result_of(lines.begin("1999-01-01"))["protocolVersion"] == LEGACY


def own_01_02_discover_tells_the_versions(target: Target) -> None:
    """`server/discover` tells versions and capabilities; another version is -32022 with those that are spoken."""
    with target.lines("modern") as lines:
        found = result_of(lines.ask("server/discover"))
        assert MODERN in found["supportedVersions"]
        assert found["capabilities"]["tools"] is not None
        meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        error = error_of(lines.ask("tools/list", _meta=meta))
        assert error["code"] == -32022, error
        assert MODERN in json.dumps(error["data"])


def own_01_03_ping_is_answered(target: Target, era: Era) -> None:
    """`ping` is answered with nothing in the legacy era, before `initialize` too; the modern one has no such method."""
    with target.lines(era) as lines:
        if era == "modern":
            assert code_of(lines.ask("ping")) == -32601
            return
        assert result_of(lines.ask("ping")) == {}
        lines.begin()
        assert result_of(lines.ask("ping")) == {}


def own_01_04_nothing_is_served_before_initialize(target: Target) -> None:
    """A legacy client is served nothing before `initialize`, and cannot initialize twice."""
    with target.lines() as lines:
        assert error_of(lines.ask("tools/list"))
        lines.begin()
        assert result_of(lines.ask("tools/list"))["tools"]
        assert error_of(lines.ask("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={}))
        assert result_of(lines.ask("tools/list"))["tools"]


def own_01_05_a_cancelled_request_is_never_answered(target: Target, era: Era) -> None:
    """A request that its client cancels is never answered, and others go on."""
    target.need_demo()
    with _begun(target, era) as lines:
        lines.send(_command(50, "sleep 60", era))
        lines.note("notifications/cancelled", requestId=50, reason="no longer wanted")
        assert result_of(lines.ask("tools/list"))["tools"]
        lines.send(_command(51, "sleep 0.2", era))
        assert lines.answer(51)
        assert [message for message in lines.heard if message.get("id") == 50] == []


def own_01_06_progress_comes_in_order_and_before_the_answer(target: Target, era: Era) -> None:
    """Progress comes with its token, grows, and comes before the answer; without a token there is none."""
    target.need_demo()
    with _begun(target, era) as lines:
        lines.send(_command(60, "count 5", era, token="t-1"))
        assert result_of(lines.answer(60))
        told = [message["params"] for message in lines.heard if message.get("method") == "notifications/progress"]
        assert [each["progress"] for each in told] == [1, 2, 3, 4, 5]
        assert {each["progressToken"] for each in told} == {"t-1"}
        lines.heard.clear()
        lines.send(_command(61, "count 5", era))
        assert result_of(lines.answer(61))
        assert [message for message in lines.heard if message.get("method") == "notifications/progress"] == []


def own_01_07_calls_run_at_the_same_time(target: Target, era: Era) -> str:
    """Sixteen calls of 50 ms take less than half of what they would one after the other."""
    target.need_demo()
    with _begun(target, era) as lines:
        result_of(lines.ask("tools/list"))
        began = time.perf_counter()
        for number in range(100, 116):
            lines.send(_command(number, "sleep 0.05", era))
        for number in range(100, 116):
            result_of(lines.answer(number))
        taken = time.perf_counter() - began
    assert taken < 0.4, f"{taken:.2f} s"
    return f"{taken * 1000:.0f} ms for 16 calls of 50 ms"


def own_01_08_a_slow_call_holds_up_nobody(target: Target, era: Era) -> None:
    """An answer does not wait for an earlier request that is still in progress."""
    target.need_demo()
    with _begun(target, era) as lines:
        lines.send(_command(70, "sleep 60", era))
        assert result_of(lines.ask("tools/list"))["tools"]
        assert lines.answers == []


def own_01_09_an_unknown_method_is_an_error(target: Target, era: Era) -> None:
    """An unknown method is -32601, with the request's id."""
    with _begun(target, era) as lines:
        answer = lines.ask(_MISSING)
        assert code_of(answer) == -32601


def own_01_10_junk_is_an_error_and_no_end(target: Target, era: Era) -> None:
    """A line that is no JSON is -32700 with the id null; an empty one is nothing; the session goes on."""
    with _begun(target, era) as lines:
        for junk in (b"{", b"\xff\xfe", b'{"jsonrpc":"2.0","id":1,'):
            lines.send(junk)
            message = lines.reply()
            assert code_of(message) == -32700, message
            assert message["id"] is None
        lines.send(b"")
        lines.send(b"  ")
        assert result_of(lines.ask("tools/list"))["tools"]
        assert lines.answers == []


def own_01_11_a_batch_is_refused(target: Target, era: Era) -> None:
    """A batch is -32600, and none of it is carried out."""
    with _begun(target, era) as lines:
        one = request(1, "tools/list", {}, era)
        lines.send(json.dumps([one, {**one, "id": 2}]).encode())
        assert code_of(lines.reply()) == -32600
        assert result_of(lines.ask("tools/list"))["tools"]
        assert lines.answers == []


def own_01_12_notifications_and_answers_are_never_answered(target: Target, era: Era) -> None:
    """Notifications, known and unknown, and answers that nobody waits for are never answered."""
    with _begun(target, era) as lines:
        lines.note(_MISSING)
        lines.note("notifications/cancelled", requestId=4711)
        lines.note("notifications/cancelled")
        lines.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
        lines.send({"jsonrpc": "2.0", "id": 4711, "error": {"code": 1, "message": "x"}})
        assert result_of(lines.ask("tools/list"))["tools"]
        assert lines.answers == []


def own_01_13_ids_come_back_as_they_were(target: Target, era: Era) -> None:
    """Ids come back exactly: numbers, large ones, texts, an empty one, texts of digits. Others are refused."""
    with _begun(target, era) as lines:
        for number in (0, -1, 2**53 + 1, "a", "", "1", "é\n"):
            lines.send(request(number, "tools/list", {}, era))
            assert result_of(lines.answer(number))["tools"]
        for wrong in (None, True, 1.5, {"a": 1}, [1]):
            lines.send(request(wrong, "tools/list", {}, era))
            message = lines.reply()
            assert code_of(message) == -32600, (wrong, message)
        assert lines.answers == []


def own_01_14_a_long_line_is_carried(target: Target, era: Era) -> None:
    """A line of a megabyte is carried, with a carriage return inside as white space."""
    target.need_tools("write_file")
    with _begun(target, era) as lines:
        arguments = {"path": "a.txt", "content": "x" * (1 << 20)}
        text = json.dumps(request(80, "tools/call", {"name": "write_file", "arguments": arguments}, era))
        lines.send(text.replace('"id": 80', '"id":\r80').encode())
        assert not result_of(lines.answer(80)).get("isError")


def own_01_15_an_oversized_line_is_refused_and_no_end(target: Target) -> None:
    """A line over the limit (64 MiB) is -32600 with the id null; it is not kept, and the session goes on."""
    if not target.ours:
        raise NotApplicable("the limit of another server is not known")
    with _begun(target, "legacy") as lines:
        lines.send(b" " * ((64 << 20) + 1))
        message = lines.reply()
        assert (message["id"], code_of(message)) == (None, -32600)
        assert result_of(lines.ask("tools/list"))["tools"]


def own_01_16_the_end_of_input_is_the_end(target: Target, era: Era) -> None:
    """At the end of its input the server finishes what is under way and ends with exit code 0."""
    target.need_demo()
    with _begun(target, era) as lines:
        lines.send(_command(90, "sleep 0.2", era))
        lines.close_input()
        assert result_of(lines.answer(90))
        try:
            extra = lines.line()
        except Silent:
            assert lines.process.wait(30) == 0
        else:
            raise AssertionError(f"it said more: {extra[:100]!r}")


def own_01_17_stdout_is_for_messages_alone(target: Target, era: Era) -> None:
    """Every line on stdout is one message in UTF-8 with `jsonrpc` 2.0, and an answer has one of result and error."""
    with _begun(target, era) as lines:
        for number, method in enumerate(("tools/list", _MISSING, "tools/call"), 1000):
            lines.send(request(number, method, {"name": "no_such_tool"} if method == "tools/call" else {}, era))
            while "method" in (message := json.loads(lines.line())):
                assert message["jsonrpc"] == "2.0"
            assert message["jsonrpc"] == "2.0"
            assert ("result" in message) != ("error" in message), message


def _command(number: int, command: str, era: Era, token: str = "") -> dict[str, object]:
    params: dict[str, object] = {"name": "run_command", "arguments": {"command": command}}
    return request(number, "tools/call", {**params, **({"_meta": {"progressToken": token}} if token else {})}, era)


@contextmanager
def _begun(target: Target, era: Era) -> Generator[Lines, None, None]:
    with target.lines(era) as lines:
        if era == "legacy":
            lines.begin()
        yield lines

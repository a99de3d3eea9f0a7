"""CS-03: `tools/call`."""

from __future__ import annotations

import json

import trio

from conformance.framework.target import Target
from conformance.framework.wire import error_of, is_array, result_of, text_of
from delta_actors.mcp import connect

_FAILURE = "intentional demo failure"


def cs_03_01_search_gives_an_array(target: Target) -> None:
    """`search` gives an array, cut by `limit`."""
    target.need_tools("search")
    rows = json.loads(text_of(target.plain.ask("tools/call", name="search", arguments={"query": "start"})))
    assert is_array(rows)
    assert len(rows) == 3, rows
    one = json.loads(text_of(target.plain.ask("tools/call", name="search", arguments={"query": "start", "limit": 1})))
    assert one == rows[:1]


def cs_03_02_a_text_comes_as_it_is(target: Target) -> None:
    """`read_file` gives its text as it is, not quoted once more."""
    target.need_tools("read_file")
    text = text_of(target.plain.ask("tools/call", name="read_file", arguments={"path": "README.md"}))
    assert "README.md" in text
    assert not text.startswith('"')


def cs_03_03_an_unknown_tool_is_an_error_that_names_it(target: Target) -> None:
    """Calling an unknown tool is a JSON-RPC error -32602 that names it."""
    error = error_of(target.plain.ask("tools/call", name="no_such_tool", arguments={}))
    assert error.get("code") == -32602, error or "a result came"
    assert "no_such_tool" in error["message"]


def cs_03_04_fields_come_structured(target: Target) -> None:
    """`write_file` gives its fields, in the text and in `structuredContent`."""
    target.need_tools("write_file")
    answer = target.plain.ask("tools/call", name="write_file", arguments={"path": "a.txt", "content": "é"})
    fields = json.loads(text_of(answer))
    assert (fields["written"], fields["path"], fields["bytes"]) == (True, "a.txt", 2)
    if "outputSchema" in target.tools["write_file"]:
        assert result_of(answer)["structuredContent"] == fields


def cs_03_05_list_dir_gives_an_array(target: Target) -> None:
    """`list_dir` gives an array of names."""
    target.need_tools("list_dir")
    names = json.loads(text_of(target.plain.ask("tools/call", name="list_dir", arguments={"path": "."})))
    assert len(names) == 5
    assert all(isinstance(name, str) for name in names)


def cs_03_06_a_call_needs_no_arguments(target: Target) -> None:
    """A call without `arguments` is one with none."""
    target.need_tools("list_dir")
    answer = target.plain.ask("tools/call", name="list_dir")
    assert len(json.loads(text_of(answer))) == 5
    assert not result_of(answer).get("isError")


def cs_03_07_a_tool_that_raises_has_a_result(target: Target) -> None:
    """What a tool raises is a result with `isError` and the message in its first text, no JSON-RPC error."""
    target.need_tools("fail")
    answer = target.plain.ask("tools/call", name="fail", arguments={})
    assert result_of(answer)["isError"] is True
    assert _FAILURE in text_of(answer)
    assert "Traceback" not in text_of(answer)


def cs_03_08_the_client_tells_failure_from_success(target: Target) -> None:
    """`DeltaClient` gives such a result as a failed one with its message, so that it cannot be taken for a success."""
    target.need_tools("fail", "list_dir")
    words = next(iter(target.transports.values()))

    async def call() -> None:
        async with connect(words[0] if words[0].startswith("http") else words) as client:
            failed = await client.call_tool("fail", b"{}")
            assert failed.is_error
            assert _FAILURE in failed.result.decode()
            assert not (await client.call_tool("list_dir", b"{}")).is_error

    trio.run(call)

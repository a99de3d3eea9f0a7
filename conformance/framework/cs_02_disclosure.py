"""CS-02: a list of names, definitions on demand."""

from __future__ import annotations

import tempfile
from pathlib import Path

import trio

from conformance.framework import tap
from conformance.framework.checks import NotApplicable, refusal
from conformance.framework.target import Target
from conformance.framework.wire import error_of, result_of
from delta_actors.mcp import DeltaServer, Disclosure, connect
from delta_protocol.mcp.schema_hash import schema_hash

_TRIES = 3
"""A server may say right after its start that its tools changed, and then it must be asked again."""


def cs_02_01_entries_have_name_and_description_only(target: Target) -> None:
    """Entries of a progressive list have a name, a description and no schema."""
    tools = result_of(target.delta_mcp.ask("tools/list"))["tools"]
    assert tools
    assert all(tool["name"] and tool["description"] and "inputSchema" not in tool for tool in tools)


def cs_02_02_descriptions_are_short(target: Target) -> None:
    """Every description in it has at most 60 characters."""
    lengths = [len(tool["description"]) for tool in result_of(target.delta_mcp.ask("tools/list"))["tools"]]
    assert max(lengths) <= 60, lengths


def cs_02_03_describing_gives_the_schema(target: Target) -> None:
    """`tools/describe` gives the definition, whose schema is of an object, as the full list has it."""
    for name, tool in target.tools.items():
        described = result_of(target.delta_mcp.ask("tools/describe", name=name))
        assert described["inputSchema"]["type"] == "object"
        assert described["inputSchema"] == tool["inputSchema"], name


def cs_02_04_a_second_describe_costs_no_message(target: Target) -> str:
    """Describing a tool again sends the server nothing (counted at its stdin; no timing)."""
    name = next(iter(target.tools), None)
    if name is None:
        raise NotApplicable("the server has no tools")

    async def describe(log: Path) -> tuple[int, int, int]:
        async with connect(tap.command(log, target.command)) as client:
            if not client.announces_tool_changes:
                raise NotApplicable("the server never says when its tools change, so nothing may be kept")
            before = tap.requests(log)
            await client.tools.describe([name])
            between = after = tap.requests(log)
            for _ in range(_TRIES):
                await client.tools.describe([name])
                known, after = after, tap.requests(log)
                if after == known:
                    return before, between, between
            return before, between, after

    with tempfile.TemporaryDirectory() as folder:
        before, between, after = trio.run(describe, Path(folder) / "log")
    assert between > before, "the first describe asked nobody: nothing was tried"
    assert after == between, f"{after - between} more requests"
    return f"{between - before} requests for the first, {after - between} for the second"


def cs_02_05_describing_an_unknown_tool_fails(target: Target) -> None:
    """Describing an unknown tool is an error -32602 that names it."""
    error = error_of(target.delta_mcp.ask("tools/describe", name="no_such_tool"))
    assert error["code"] == -32602
    assert "no_such_tool" in error["message"]


def cs_02_06_a_long_summary_is_refused(target: Target) -> None:
    """A summary of more than 60 characters is refused at registration, and the message says 60; one of 60 is not."""
    target.need_api()
    server = DeltaServer("long", "1", disclosure=Disclosure())
    server.tool("sixty", summary="é" * 60)(_nothing)
    said = refusal(lambda: server.tool("more", summary="é" * 61)(_nothing))
    assert "60" in said, said


def cs_02_07_equal_schemas_hash_equally(target: Target) -> None:
    """Equal schemas have equal hashes whatever the order of their keys, others do not; the hash is FNV-1a's."""
    target.need_api()
    one = b'{"type":"object","properties":{"a":{"type":"string"},"b":{}}}'
    other = b'{"properties":{"b":{},"a":{"type":"string"}},"type":"object"}'
    assert schema_hash(one) == schema_hash(other) != schema_hash(other.replace(b"string", b"number"))
    assert schema_hash(b'{"type":"object"}') == "9abfc9b4"


def _nothing() -> None:
    """Do nothing."""

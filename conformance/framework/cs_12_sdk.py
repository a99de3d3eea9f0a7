"""CS-12: the official Python SDK's client, over stdio and over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

from conformance.framework.checks import NotApplicable
from conformance.framework.target import ROOT, Target

INTEROP = ROOT / "tests" / "interop"
PYTHON = INTEROP / ".venv" / "bin" / "python"
"""Where the SDK is installed (`python -m tests.interop.peers`)."""
_NAMES = {"search", "read_file", "write_file", "list_dir", "run_command"}
_RUN = 120.0


def cs_12_01_it_connects(target: Target) -> None:
    """It connects, by the legacy handshake and by asking for the newest revision first."""
    for seen in _seen(target):
        assert seen["protocol"] in ("2025-11-25", "2026-07-28")


def cs_12_02_it_lists_tools(target: Target) -> None:
    """Every tool that it lists has a name, a description and a schema of an object."""
    for seen in _seen(target):
        assert seen["tools"]
        for tool in seen["tools"]:
            assert tool["name"], tool
            assert tool["description"], tool
            assert tool["inputSchema"]["type"] == "object", tool


def cs_12_03_it_finds_the_tools_by_name(target: Target) -> None:
    """The demo's names are among them."""
    target.need_tools(*_NAMES)
    for seen in _seen(target):
        assert {tool["name"] for tool in seen["tools"]} >= _NAMES


def cs_12_04_it_calls_a_tool(target: Target) -> None:
    """A call gives it a text that is not empty."""
    target.need_tools("read_file")
    for seen in _seen(target):
        assert _text(seen["read"])


def cs_12_05_it_reads_an_array(target: Target) -> None:
    """The text of `list_dir` is a JSON array."""
    target.need_tools("list_dir")
    for seen in _seen(target):
        assert isinstance(json.loads(_text(seen["listed"])), list)


def cs_12_06_an_unknown_tool_is_an_error_to_it(target: Target) -> None:
    """Calling an unknown tool is an error to it, and the server survives."""
    for seen in _seen(target):
        assert seen["unknown"]
        assert seen["after"] == len(seen["tools"])


def cs_12_07_it_sees_the_tools_capability(target: Target) -> None:
    """It sees the capability `tools`."""
    for seen in _seen(target):
        assert "tools" in seen["capabilities"], seen["capabilities"]


def cs_12_08_it_sees_a_tool_fail(target: Target) -> None:
    """A tool that raises is a result with `isError` to it."""
    target.need_tools("fail")
    for seen in _seen(target):
        assert seen["failed"]["isError"] is True
        assert "intentional demo failure" in _text(seen["failed"])


def _seen(target: Target) -> Iterator[dict[str, Any]]:
    """Yield what the client saw over each transport in each era; it is run once."""
    if not PYTHON.exists():
        raise NotApplicable("the official SDK is not installed: run `python -m tests.interop.peers`")
    for transport, words in target.transports.items():
        for era in ("legacy", "auto"):
            seen = target.kept(f"sdk {transport} {era}")
            yield seen if seen is not None else target.keep(f"sdk {transport} {era}", _run(era, words))


def _run(era: str, words: list[str]) -> dict[str, Any]:
    client = INTEROP / "clients" / "conformance_client.py"
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [str(PYTHON), str(client), era, *words],
        capture_output=True, text=True, timeout=_RUN, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-300:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def _text(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")

"""What the library is to its users: light to import, one object for everything, an example that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from delta_actors.mcp import DeltaServer, RequestContext
from delta_actors.mcp.functions import FunctionTools
from tests.mcp.samples import Log, modern, sample_server, served

ROOT = Path(__file__).resolve().parents[2]


def test_importing_the_library_loads_no_http() -> None:
    heavy = "{'hypercorn', 'httpx', 'h11', 'jsonschema_rs', 'jwt', 'cryptography'}"
    program = f"import sys, delta_actors.mcp; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == ""


LOUD = """
import os
from delta_actors.mcp import DeltaServer
server = DeltaServer("loud", "1")
@server.tool()
def loud() -> str:
    print("noise", flush=True)
    os.system("echo noise of a child")
    return "quiet"
server.run()
"""


def test_the_example_serves_over_stdio() -> None:
    example = str(ROOT / "docs" / "examples" / "stdio_server.py")
    message = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    done = subprocess.run([sys.executable, example], input=message, capture_output=True, check=True, timeout=60)
    assert done.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def test_prints_of_a_tool_and_of_its_children_stay_out_of_the_protocol() -> None:
    message = json.dumps(modern(1, "tools/call", name="loud", arguments={})).encode() + b"\n"
    done = subprocess.run([sys.executable, "-c", LOUD], input=message, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "quiet"
    assert b"noise of a child" in done.stderr


def test_stdin_and_stdout_may_be_files(tmp_path: Path) -> None:
    given, taken = tmp_path / "in", tmp_path / "out"
    given.write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with given.open() as stdin, taken.open("w") as stdout:
        example = str(ROOT / "docs" / "examples" / "stdio_server.py")
        subprocess.run([sys.executable, example], stdin=stdin, stdout=stdout, check=True, timeout=60)
    assert '"result":{}' in taken.read_text()


async def test_a_functions_parameters_become_the_schema() -> None:
    server = DeltaServer("s", "1")

    @server.tool(name="renamed", description="Says it.", destructive=True)
    async def tool(text: str, times: int = 2, *, tags: list[str] | None = None, context: RequestContext) -> str:
        return text * times

    async with served(server) as peer:
        (shown,) = (await peer.ask(modern(1, "tools/list")))["result"]["tools"]
        assert (shown["name"], shown["description"]) == ("renamed", "Says it.")
        assert shown["annotations"] == {"destructiveHint": True}
        assert shown["inputSchema"]["required"] == ["text"]
        assert set(shown["inputSchema"]["properties"]) == {"text", "times", "tags"}
        answer = await peer.ask(modern(2, "tools/call", name="renamed", arguments={"text": "ab"}))
        assert answer["result"]["content"][0]["text"] == "abab"


def test_a_tool_takes_named_parameters_and_its_name_once() -> None:
    server = sample_server(Log())
    with pytest.raises(ValueError, match="add"):
        server.tool(name="add")(lambda: None)
    with pytest.raises(TypeError, match="named parameters"):

        @server.tool()
        def spread(*values: Any) -> None: ...


def test_a_server_with_a_source_takes_no_functions() -> None:
    source = FunctionTools()
    with pytest.raises(TypeError):
        DeltaServer("s", "1", tools=source).tool()

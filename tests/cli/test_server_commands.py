"""`list`, `describe`, `call`, `bench` with servers of ours and of other hands, over stdio and HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conformance.official import everything_server
from tests.interop import peers

pytestmark = pytest.mark.xdist_group("server-commands")

PROGRAM = Path(sys.executable).parent / "delta-supervisor"
SDK_SERVER = Path(__file__).parents[1] / "mcp" / "sdk_server.py"


@pytest.fixture
def tickets(tmp_path: Path) -> list[str]:
    return [sys.executable, "-m", "delta_actors.demo.tickets", "--db", str(tmp_path / "tickets.db")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with everything_server() as url:
        yield url


def shell(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words], input=stdin, capture_output=True, text=True, timeout=60, check=False, encoding="utf-8"
    )


def test_a_server_lists_its_tools_with_what_they_cost(tickets: list[str]) -> None:
    shown = shell("list", *tickets)
    assert shown.returncode == 0
    assert shown.stdout.startswith("tickets 1.0.0 · protocol 2026-07-28 · 7 tools\n")
    assert "Return one ticket with its comments." in shown.stdout
    facts = json.loads(shell("list", "--json", *tickets).stdout)
    assert f"~{facts['tokens']['list']} for the whole list" in shown.stdout
    assert facts["tokens"]["list"] > 5 * facts["tokens"]["signatures"]
    assert [tool["definition"]["name"] for tool in facts["tools"]] == [tool["name"] for tool in facts["tools"]]


def test_one_tool_is_described_as_the_server_defines_it_or_in_one_line(tickets: list[str]) -> None:
    definition = json.loads(shell("describe", *tickets, "get_ticket").stdout)
    assert definition["inputSchema"]["required"] == ["id"]
    assert shell("describe", "--signature", *tickets, "get_ticket").stdout == "get_ticket({id: string})\n"
    unknown = shell("describe", "--json", *tickets, "get_tickt")
    assert unknown.returncode == 2
    assert "did you mean get_ticket" in unknown.stderr
    assert json.loads(unknown.stdout)["error"]["code"] == "not_found"


def test_a_call_prints_what_the_tool_says_and_its_failure_is_the_exit_code(tickets: list[str]) -> None:
    called = shell("call", *tickets, "get_ticket", '{"id": "T-1"}')
    assert (called.returncode, json.loads(called.stdout)["title"]) == (0, "Login broken")
    read = shell("call", "--json", *tickets, "get_ticket", "-", stdin='{"id": "T-1"}')
    assert json.loads(read.stdout)["structuredContent"]["id"] == "T-1"
    failed = shell("call", *tickets, "get_ticket", '{"id": "T-99"}')
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "get_ticket failed: there is no ticket T-99\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["call", "TICKETS", "get_ticket", "{bad"], 2, "the arguments are no JSON"),
        (["call", "TICKETS", "get_ticket", "[1]"], 2, "must be a JSON object"),
        (["call", "TICKETS", "no_such_tool", "{}"], 2, "Unknown tool: no_such_tool"),
        (["call", "x"], 64, "call takes a server"),
        (["list"], 64, "Missing argument"),
        (["list", "http://127.0.0.1:1/mcp"], 70, "cannot be reached"),
        (["list", "http://127.0.0.1:1/mcp", "more"], 64, "takes no arguments"),
        (["list", "--header", "nothing", "http://127.0.0.1:1/mcp"], 64, "NAME=VALUE"),
        (["list", "--header", "a=b", "some-command"], 64, "--header is for a URL"),
        (["list", "--timeout", "1", "sleep", "100"], 70, "within 1 s"),
        (["list", "no-such-program-anywhere"], 70, "no-such-program-anywhere"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(words: list[str], code: int, said: str, tickets: list[str]) -> None:
    line = [part for word in words for part in (tickets if word == "TICKETS" else [word])]
    failed = shell(*line)
    assert failed.returncode == code
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_url_is_a_server_too(era: str, url: str) -> None:
    listed = json.loads(shell("list", "--json", "--era", era, "--header", "x-trace=1", url).stdout)
    assert listed["protocol"] == {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
    called = shell("call", "--era", era, url, "test_multiple_content_types", "{}")
    assert called.stdout == "Multiple content types test:\n[image]\n[resource]\n"


def test_a_bench_compares_the_ways_to_show_tools(url: str) -> None:
    facts = json.loads(shell("bench", "--json", "--count", "3", url).stdout)
    assert facts["milliseconds"]["count"] == 3
    assert facts["server"]["tokens"]["summaries"] < facts["server"]["tokens"]["list"]
    shown = shell("bench", "--count", "3", url).stdout
    assert "Start to first list" in shown
    assert "%" in shown


def test_a_server_of_another_hand_is_no_different() -> None:
    peers.require()
    server = [str(peers.PYTHON), str(SDK_SERVER), "stdio"]
    assert shell("call", *server, "add", '{"a": 2, "b": 3}').stdout == "5\n"
    assert "Add two numbers." in shell("list", *server).stdout


def test_a_server_of_delta_mcp_is_spoken_to_in_its_own_way_where_that_is_asked_for() -> None:
    server = [sys.executable, str(Path(__file__).parents[2] / "docs" / "examples" / "progressive_server.py")]
    listed = json.loads(shell("list", "--json", "--era", "delta-mcp", *server).stdout)
    assert all(set(tool["definition"]) == {"name", "description"} for tool in listed["tools"])
    described = json.loads(shell("describe", "--era", "delta-mcp", *server, "lend").stdout)
    assert described["inputSchema"]["required"] == ["title"]
    refused = shell("list", "--era", "delta-mcp", "ws://127.0.0.1:1/x")
    assert (refused.returncode, "over a WebSocket" in refused.stderr) == (64, True)
    assert "cannot be reached" in shell("list", "ws://127.0.0.1:1/x").stderr


class Guarded(BaseHTTPRequestHandler):
    """A server that knows no token."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"who are you?"}}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_server_that_wants_a_token_is_no_stranger_to_the_protocol() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            told = shell("list", f"http://127.0.0.1:{server.server_port}/mcp")
        finally:
            server.shutdown()
            thread.join()
    assert told.returncode == 2
    assert "HTTP 401: who are you?; give a token: --header 'Authorization=Bearer TOKEN'" in told.stderr

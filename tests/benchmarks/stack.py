"""The whole stack: an empty program, a call passed through, a cold start, memory at rest."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx

from tests.benchmarks.line_client import LineClient
from tests.benchmarks.tables import Table, interleaved, median, ms, percentile
from tests.interop import peers
from tests.stack.harness import Stack, running
from tests.stack.processes import descendants, nothing_left_behind
from tests.stack.wire import VERSION, body

TARGETS = Path(__file__).parent / "targets"
ECHO = [sys.executable, str(TARGETS / "echo.py")]
PASS_THROUGH = (
    f"version = 1\n[connectors.echo]\ncommand = {json.dumps(ECHO[0])}\nargs = {json.dumps(ECHO[1:])}\n"
    'expose = "tools"\nreviewed = true\n'
)
CALLS = 200


def measure() -> Sequence[Table]:
    """Return the tables of the whole stack; takes about a minute."""
    with nothing_left_behind():
        return [passed_through(), empty_delta(), cold_start(), memory_at_rest()]


class HttpCalls:
    """One keep-alive connection, modern era."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.Client(verify=False, trust_env=False, timeout=30)
        self._number = 0

    def times(self, tool: str, count: int, **arguments: str) -> list[float]:
        """Return the seconds of `count` calls one after another."""
        return [self._once(tool, arguments) for _ in range(count)]

    def _once(self, tool: str, arguments: dict[str, str]) -> float:
        self._number += 1
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        message = body(self._number, "tools/call", {"name": tool, "arguments": arguments})
        began = time.perf_counter()
        response = self._client.post(self._url, json=message, headers=headers)
        taken = time.perf_counter() - began
        assert response.status_code == 200, response.text
        return taken

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def wait_for_tool(client: LineClient, tool: str) -> None:
    """Wait until a server lists a tool."""
    until = time.monotonic() + 30
    while tool not in {each["name"] for each in client.request("tools/list")["result"]["tools"]}:
        assert time.monotonic() < until, f"{tool} never came"
        time.sleep(0.1)


def passed_through() -> Table:
    """Measure one tool call: directly, through the stack, through fastmcp's proxy."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        stack = opened.enter_context(running(Path(folder), PASS_THROUGH))
        clients = {
            "the server itself, stdio": LineClient(ECHO),
            "through the stack, stdio": LineClient(stack.command("stdio"), stack.env, stack.home),
        }
        if peers.installed():
            proxy: list[str | Path] = [peers.PYTHON, TARGETS / "fastmcp_proxy.py", *ECHO[1:]]
            clients["through fastmcp's proxy, stdio"] = LineClient(proxy)
        for client in clients.values():
            opened.callback(client.close)
            wait_for_tool(client, "echo")
        http = HttpCalls(stack.url)
        opened.callback(http.close)
        callers: dict[str, LineClient | HttpCalls] = {**clients, "through the stack, HTTP": http}
        for caller in callers.values():
            caller.times("echo", 20, text="warm")
        targets = {name: partial(caller.times, "echo", CALLS, text="x") for name, caller in callers.items()}
        samples = interleaved(targets)
    floor = median(samples["the server itself, stdio"])
    rows = [
        [name, ms(median(taken)), ms(percentile(taken, 0.99)), f"+{ms(median(taken) - floor)}"]
        for name, taken in samples.items()
    ]
    note = f"One `tools/call` after another, {CALLS * 5} each; the same server behind all, a bare loop over stdin."
    return Table("A call passed through", note, ["path", "p50", "p99", "added p50"], rows)


def empty_delta() -> Table:
    """Measure the smallest program through all its actors, beside a read through the demo connector."""
    programs = {"`return 1`": "return 1", "one read": 'return (await tickets.ticket.get("T-1")).title'}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        stack = opened.enter_context(running(Path(folder)))
        client = LineClient(stack.command("stdio"), stack.env, stack.home)
        opened.callback(client.close)
        http = HttpCalls(stack.url)
        opened.callback(http.close)
        targets = {
            f"{words}, {way}": partial(caller.times, "delta", CALLS // 4, code=code)
            for words, code in programs.items()
            for way, caller in (("stdio", client), ("HTTP", http))
        }
        for target in targets.values():
            target()
        samples = interleaved(targets)
    rows = [[name, ms(median(taken)), ms(percentile(taken, 0.99))] for name, taken in samples.items()]
    note = "A whole `delta`: journal, a fresh sandbox worker, shaping; one after another."
    return Table("A small program", note, ["program", "p50", "p99"], rows)


def cold_start() -> Table:
    """Measure from the client's spawn to the first `tools/list`: nothing running, a stack running, and two floors."""
    starts: dict[str, list[float]] = {}

    def first_list(name: str, command: Sequence[str | Path], stack: Stack | None = None) -> None:
        client = LineClient(command, stack.env if stack else None, stack.home if stack else None)
        client.request("tools/list")
        starts.setdefault(name, []).append(time.perf_counter() - client.started)
        client.close()

    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            stack = Stack(Path(folder))
            first_list("`stdio`, no stack running", stack.command("stdio"), stack)
            first_list("`stdio`, joining the stack", stack.command("stdio"), stack)
            stack.cli("down")
        first_list("the bare echo server", ECHO)
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import trio, msgspec"], check=True)
        starts.setdefault("`python -c 'import trio, msgspec'`", []).append(time.perf_counter() - began)
        if peers.installed():
            first_list("fastmcp's proxy in front of it", [peers.PYTHON, TARGETS / "fastmcp_proxy.py", *ECHO[1:]])
    rows = [[name, ms(median(taken)), ms(max(taken))] for name, taken in starts.items()]
    note = "From spawning the client's command to the answer to its first `tools/list`; five starts."
    return Table("Cold start", note, ["start", "median", "worst"], rows)


def memory_at_rest() -> Table:
    """Measure the proportional set size of every process of a stack that does nothing."""
    rows: list[list[str]] = []
    for name, config in (("no connectors", "version = 1\n"), ("embedded defaults: two demo connectors", "")):
        with tempfile.TemporaryDirectory() as folder, running(Path(folder), config) as stack:
            assert stack.process is not None
            stack.run("return 1")
            time.sleep(2)
            tree = [stack.process.pid, *(process.pid for process in descendants(stack.process.pid))]
            rows.append([name, str(len(tree)), f"{sum(map(pss, tree)) / (1 << 20):.0f} MiB"])
    note = "Proportional set size (shared pages counted once) after one program, over all processes."
    return Table("Memory at rest", note, ["stack", "processes", "PSS"], rows)


def pss(pid: int) -> int:
    """Return a process's proportional set size in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))

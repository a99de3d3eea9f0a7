"""`DeltaServer` beside the official SDKs: the same calls, sent and parsed by one neutral load client.

The load client and the peers' echo servers are not shipped: without them (`DELTA_SHARED`), or without the interop
peers, there is nothing to measure.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import shared_data
from tests.benchmarks.line_client import LineClient
from tests.benchmarks.tables import Table, median
from tests.interop import peers

ECHO = Path(__file__).parent / "targets" / "delta_echo.py"
ROUNDS = 3
CALLS = 1500
OURS = "DeltaServer"


def measure() -> Sequence[Table]:
    """Return the tables; takes some two minutes."""
    found = shared_data.folder()
    if found is None or not peers.installed():
        print("no load client or no peers here: servers are not measured\n", file=sys.stderr)
        return []
    load = found / "tools" / "load"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        # Node looks for packages beside the file it runs.
        (place / "node_modules").symlink_to(peers.MODULES)
        for script in (load / "servers").glob("*.mjs"):
            shutil.copy(script, place)
        stdio = _run(load, place, _stdio_targets(load, place), "legacy")
        http = _run(load, place, _http_targets(load, place), "modern")
    return [_stdio_table(stdio), _http_table(http), _at_once()]


def _stdio_targets(load: Path, place: Path) -> dict[str, list[str]]:
    servers = load / "servers"
    return {
        "bare Python loop": [sys.executable, "-S", "-E", str(servers / "floor_stdio.py"), "stdio"],
        OURS: [sys.executable, str(ECHO), "stdio"],
        "TypeScript SDK 1.x": [str(peers.NODE), str(place / "ts1-echo.mjs"), "stdio"],
        "Python mcp, lowlevel": [str(peers.PYTHON), str(servers / "py_mcp_low_echo.py"), "stdio"],
        "Python mcp": [str(peers.PYTHON), str(servers / "py_mcp_echo.py"), "stdio"],
    }


def _http_targets(load: Path, place: Path) -> dict[str, list[str]]:
    servers = load / "servers"
    return {
        "bare Python loop": [sys.executable, "-S", "-E", str(servers / "floor_http.py"), "{PORT}"],
        OURS: [sys.executable, str(ECHO), "http", "{PORT}"],
        "TypeScript SDK 2.x": [str(peers.NODE), str(place / "ts2-echo.mjs"), "http", "{PORT}"],
        "Python mcp, lowlevel": [str(peers.PYTHON), str(servers / "py_mcp_low_echo.py"), "http", "{PORT}", "json"],
    }


def _run(load: Path, place: Path, targets: Mapping[str, list[str]], era: str) -> dict[str, dict[str, float]]:
    """Return the medians of every target's figures, as the load client names them."""
    transport = "http" if "{PORT}" in targets[OURS] else "stdio"
    listed = [{"name": name, "transport": transport, "cmd": cmd, "eras": [era]} for name, cmd in targets.items()]
    (place / "targets.json").write_text(json.dumps(listed))
    out = place / f"{transport}.json"
    command: list[str | Path] = [sys.executable, load / "loadclient.py", place / "targets.json", "--out", out]
    counts = ["--rounds", str(ROUNDS), "--calls", str(CALLS), "--conc-calls", str(CALLS * 2), "--starts", "3"]
    subprocess.run([*command, *counts], check=True, stdout=subprocess.DEVNULL, timeout=900)
    results: dict[str, list[dict[str, Any]]] = json.loads(out.read_text())["results"]
    failed = {name: each["error"] for name, rounds in results.items() for each in rounds if "error" in each}
    if failed:
        raise RuntimeError(f"not measured: {failed}")
    return {
        name.partition(" [")[0]: {key: median([each[key] for each in rounds if key in each]) for key in rounds[0]}
        for name, rounds in results.items()
    }


def _stdio_table(found: Mapping[str, Mapping[str, float]]) -> Table:
    return Table(
        "A server over stdio",
        f"`tools/call` of an echo, one after another, 2025-11-25; {ROUNDS} interleaved rounds of {CALLS}. Calls/s and "
        "start as ratios to ours in brackets: below 1 is less than ours.",
        ("server", "calls/s", "p50", "CPU per call", "start to first list", "resident"),
        [
            (
                name,
                _compared(found, name, "rps"),
                f"{row['p50_ms']:.2f} ms",
                f"{row['cpu_ms_per_call']:.2f} ms",
                _compared(found, name, "start_ms"),
                f"{row['rss_end_mb']:.0f} MB",
            )
            for name, row in found.items()
        ],
    )


def _http_table(found: Mapping[str, Mapping[str, float]]) -> Table:
    return Table(
        "A server over HTTP",
        f"The same in 2026-07-28, over kept connections: one caller, then 32 at once ({CALLS * 2} calls).",
        ("server", "calls/s", "p50", "CPU per call", "32 callers, calls/s", "CPU per call", "start", "resident"),
        [
            (
                name,
                _compared(found, name, "rps"),
                f"{row['p50_ms']:.2f} ms",
                f"{row['cpu_ms_per_call']:.2f} ms",
                _compared(found, name, "c_rps"),
                f"{row['c_cpu_ms_per_call']:.2f} ms",
                _compared(found, name, "start_ms"),
                f"{row['rss_end_mb']:.0f} MB",
            )
            for name, row in found.items()
        ],
    )


def _compared(found: Mapping[str, Mapping[str, float]], name: str, key: str) -> str:
    value, ours = found[name][key], found[OURS][key]
    return f"{value:,.0f}" if name == OURS else f"{value:,.0f} ({value / ours:.2f})"


def _at_once() -> Table:
    """Measure 16 calls of 50 ms sent at once over stdio: a server that serves one after another takes 800 ms."""
    taken: list[float] = []
    client = LineClient([sys.executable, str(ECHO), "stdio"])
    try:
        client.request("tools/list")
        for _ in range(5):
            began = time.perf_counter()
            client.requests("tools/call", [{"name": "sleep", "arguments": {"ms": 50}}] * 16)
            taken.append(time.perf_counter() - began)
    finally:
        client.close()
    return Table(
        "Calls at once over stdio",
        "16 calls of 50 ms sent together, until the last answer; five times.",
        ("calls", "median", "worst"),
        [("16 of 50 ms", f"{median(taken) * 1000:.0f} ms", f"{max(taken) * 1000:.0f} ms")],
    )

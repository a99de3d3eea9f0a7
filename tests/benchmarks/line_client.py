"""A blocking client over a child's pipes, as cheap as one can be: what it measures is the server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class LineClient:
    """Legacy era over stdio. `started` is when the child was spawned (time.perf_counter)."""

    def __init__(
        self, command: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.started = time.perf_counter()
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env=dict(env or os.environ), cwd=cwd, **pipes)
        self._number = 0
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", about)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its response message."""
        return self.requests(method, [params or {}])[0]

    def requests(self, method: str, params: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Send requests all at once and return their response messages in the order they came."""
        assert self.process.stdout is not None
        first = self._number + 1
        for each in params:
            self._number += 1
            self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": dict(each)})
        answers: list[dict[str, Any]] = []
        while len(answers) < len(params):
            message: dict[str, Any] = json.loads(self.process.stdout.readline())
            if message.get("id", 0) >= first:
                answers.append(message)
        return answers

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; raises `AssertionError` if it failed."""
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer
        return answer

    def times(self, tool: str, count: int, **arguments: Any) -> list[float]:
        """Return the seconds of `count` calls one after another."""
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            self.call(tool, **arguments)
            taken.append(time.perf_counter() - began)
        return taken

    def close(self) -> None:
        """Close the child's stdin and wait for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

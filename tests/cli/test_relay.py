"""`stdio` on a real stack: a client keeps its session over restarts of the transport and of the whole stack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack.harness import Stack

CONFIG = "version = 1\n[limits]\nidle = 2.0\n[supervision]\nmax_restarts = 50\n"


class Client:
    """The least of an MCP client: one line out, lines in until the answer."""

    def __init__(self, stack: Stack) -> None:
        self.process = subprocess.Popen(
            stack.command("stdio"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=stack.home,
            env=stack.env,
        )
        self.heard: list[dict[str, Any]] = []
        self._last = 0

    def introduce(self) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert "result" in self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._last += 1
        self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}})
        return self.answer(self._last)

    def answer(self, identity: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            self.heard.append(message)
            if message.get("id") == identity and "method" not in message:
                return message
        assert self.process.stderr is not None
        raise AssertionError(self.process.stderr.read().decode())

    def run(self, code: str) -> dict[str, Any]:
        return self.ask("tools/call", {"name": "delta", "arguments": {"code": code, "again": True}})

    def close(self) -> int:
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def own(home: Path) -> Iterator[Stack]:
    stack = Stack(home, CONFIG)
    yield stack
    stack.cli("down")


@pytest.fixture
def client(own: Stack) -> Iterator[Client]:
    client = Client(own)
    client.introduce()
    yield client
    if client.process.poll() is None:
        client.process.kill()
        client.process.communicate()


def returned(answer: dict[str, Any]) -> Any:
    return answer["result"]["structuredContent"]["returned"]


def without(pid: int) -> Callable[[dict[str, Any]], bool]:
    return lambda status: all(each["pid"] != pid for each in status["actors"])


def test_a_client_goes_on_after_its_transport_was_killed(own: Stack, client: Client) -> None:
    for number in range(3):
        assert returned(client.run(f"return {number}")) == number
        killed = own.pid("transport")
        os.kill(killed, signal.SIGKILL)
        # Until the end is noticed a request may still go to the dead: it would be answered as lost.
        own.wait(without(killed))
    assert returned(client.run("return 'still here'")) == "still here"
    introductions = [message for message in client.heard if "serverInfo" in message.get("result", {})]
    assert len(introductions) == 1, "the repeated introduction is not the client's business"


def test_a_request_in_flight_at_the_kill_gets_a_typed_answer(own: Stack, client: Client) -> None:
    transport = own.pid("transport")
    client.send(
        {
            "jsonrpc": "2.0",
            "id": 77,
            "method": "tools/call",
            "params": {"name": "delta", "arguments": {"code": "await sleep(1500); return 1;"}},
        }
    )
    time.sleep(0.3)
    os.kill(transport, signal.SIGKILL)
    assert client.answer(77)["error"]["data"]["code"] == "actor_crashed"
    assert returned(client.run("return 2")) == 2


def test_the_next_request_starts_a_stack_that_was_killed_whole(own: Stack, client: Client) -> None:
    killed = own.status()["pid"]
    os.kill(killed, signal.SIGKILL)
    time.sleep(0.5)
    assert own.status_or_none() is None, "nobody asked for anything yet"
    assert returned(client.run("return 3")) == 3
    assert own.status()["pid"] != killed


def test_a_client_that_closes_gets_its_last_answers(own: Stack) -> None:
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = own.cli("stdio", given=text)
    answers = {message.get("id"): message for message in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == ["delta", "delta_read", "delta_apply"]


def test_a_configuration_that_cannot_be_read_is_told_on_stderr(home: Path) -> None:
    done = Stack(home, "version = 1\n[htpp]\n").cli("stdio")
    assert (done.returncode, done.stdout) == (78, "")
    assert "htpp" in done.stderr

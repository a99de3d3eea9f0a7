"""One stack under test, started and looked at as a person would: with the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from delta_protocol.errors import DeltaError
from delta_supervisor.control.client import ControlClient
from delta_supervisor.places import runtime_dir

PROGRAM = str(Path(sys.executable).parent / "delta-supervisor")
TICKET_TASK = (
    'const t = await tickets.ticket.get("T-1"); t.status = "closed"; t.labels.push("late"); '
    't.comments.push({body: "Closed: fixed in 2.3"}); return t.title;'
)


class Stack:
    """A state directory and what runs on it.

    `config` is the text of a `delta.toml`, empty for the embedded defaults; every command runs in `home`, a directory
    of the test's own.
    """

    def __init__(self, home: Path, config: str = "", env: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.state = home / "state"
        machine = {name: value for name, value in os.environ.items() if not name.startswith("DELTA_")}
        self.env = {
            **machine,
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
            **(env or {}),
        }
        self.config = home / "delta.toml"
        if config:
            self.config.write_text(config)
        self.process: subprocess.Popen[bytes] | None = None
        self.log = home / "up.log"

    def command(self, name: str, *arguments: str) -> list[str]:
        """Return a command line on this stack's state directory and configuration."""
        flags = ["--state-dir", str(self.state)]
        if name in _CONFIGURED:
            flags += ["--port", "0", *(["--config", str(self.config)] if self.config.exists() else [])]
        return [PROGRAM, *name.split(), *flags, *arguments]

    def cli(self, name: str, *arguments: str, given: str = "", timeout: float = 90) -> subprocess.CompletedProcess[str]:
        """Run one command to its end; `given` is its standard input. Seconds."""
        return subprocess.run(
            self.command(name, *arguments),
            input=given,
            text=True,
            capture_output=True,
            timeout=timeout,
            cwd=self.home,
            env=self.env,
            check=False,
        )

    def start(self, *, ready: bool = True) -> None:
        """Start the stack; returns when all its actors are ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command("up"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=self.env,
            )
        if ready:
            self.wait_ready()

    def wait_ready(self, timeout: float = 30) -> dict[str, Any]:
        """Wait until the stack serves; returns its status. Seconds."""
        return self.wait(lambda status: status["state"] == "ready", timeout)

    def wait(self, holds: Callable[[dict[str, Any]], bool], timeout: float = 30) -> dict[str, Any]:
        """Wait until the status is as wanted; returns it. Raises `AssertionError` with the log at the end. Seconds."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            status = self.status_or_none()
            if status is not None and holds(status):
                return status
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the stack did not get there: {self.status_or_none()}\n{self.output()}")

    def output(self) -> str:
        """Return what the stack printed so far, its last 4,000 characters."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def status_or_none(self) -> dict[str, Any] | None:
        """Return what `status --json` shows of actors and addresses, None while there is no stack.

        Asked by the control socket, for a process of its own each time would be most of what a waiting test does.
        """
        try:
            with ControlClient(runtime_dir(self.state)) as client:
                found: dict[str, Any] = msgspec.to_builtins(client.status())
        except DeltaError:
            return None
        return found

    def status(self) -> dict[str, Any]:
        """Return `status --json`."""
        done = self.cli("status", "--json")
        assert done.returncode == 0, self.output()
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def pid(self, actor: str) -> int:
        """Return the process id of an actor."""
        return int(next(each["pid"] for each in self._looked()["actors"] if each["name"] == actor))

    def _looked(self) -> dict[str, Any]:
        status = self.status_or_none()
        assert status is not None, self.output()
        return status

    @property
    def url(self) -> str:
        """The address that MCP clients connect to."""
        return http_address(self._looked())

    def run(self, code: str, *flags: str) -> dict[str, Any]:
        """Run one program from the shell; returns what `run --json` printed, with its exit code under `exit`."""
        done = self.cli("run", "--json", *flags, "-", given=code)
        try:
            printed = json.loads(done.stdout)
        except ValueError as error:
            raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.output()}") from error
        return {**printed, "exit": done.returncode}

    def undo(self, delta: str) -> dict[str, Any]:
        """Undo a delta from the shell; returns what `undo --json` printed, with its exit code under `exit`."""
        done = self.cli("undo", "--json", delta)
        assert done.stdout, f"exit {done.returncode}\n{done.stderr}\n{self.output()}"
        return {**json.loads(done.stdout), "exit": done.returncode}

    def stop(self, timeout: float = 30) -> int:
        """End the stack by SIGTERM, as a service manager does; returns its exit code. Seconds."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)


_CONFIGURED = {"up", "stdio", "check"}
"""The commands that read a configuration; the others speak with a stack that has one."""


def http_address(status: dict[str, Any]) -> str:
    """Return the HTTP endpoint among the bound addresses of `status --json`."""
    return next(str(each) for each in status["addresses"] if each.startswith("http://"))


@contextmanager
def prepared(home: Path, config: str = "", env: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Give a stack that the body starts and ends as it likes; what still runs after is killed and reaped."""
    stack = Stack(home, config, env)
    try:
        yield stack
    finally:
        if stack.process is not None:
            stack.process.kill()
            stack.process.wait()


@contextmanager
def running(home: Path, config: str = "", env: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Start a stack for the body and stop it after."""
    with prepared(home, config, env) as stack:
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()

"""A gateway with the server under test behind it as its one connector, exposed plainly.

A legacy server's session belongs to one conversation, since it asks its clients and logs for them without saying for
which of their calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import trio

from conformance.under_test import FOLDER, everything_server
from delta_actors.mcp import HttpParameters, open_http

BACKS = ("stdio legacy", "stdio modern", "HTTP legacy", "HTTP modern")
"""How the server is behind the gateway: the transport, and the one era it speaks."""

NOT_OFFERED = ("tasks-",)
"""How the scenarios of what the gateway does not offer begin: a connector's calls run as calls, not as tasks."""

_NEVER = frozenset({"server-sse-polling"})
_NOT_BEFORE_LEGACY = frozenset(
    {
        "server-stateless",
        "input-required-result-basic-elicitation",
        "input-required-result-ignore-extra-params",
    }
)

_PROGRAM = str(Path(sys.executable).parent / "delta-supervisor")
_START = 60.0
_STOP = 30.0


def impossible(back: str, scenario: str) -> bool:
    """Tell whether no gateway could pass the scenario with such a server behind it; docs/conformance.md says why."""
    return scenario in _NEVER or (back.endswith("legacy") and scenario in _NOT_BEFORE_LEGACY)


@contextmanager
def running(back: str) -> Generator[str, None, None]:
    """Run a gateway for the length of the block and give its URL.

    Raises `RuntimeError` with its own words if it does not start, `TooSlowError` if its connector does not.
    """
    transport, era = back.split()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if transport == "HTTP":
            where = f"url = {json.dumps(stack.enter_context(everything_server('--era', era)))}"
        else:
            program = [str(FOLDER / "everything_server.py"), "stdio", "--era", era]
            where = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(program)}"
        config = home / "delta.toml"
        session = "conversation" if era == "legacy" else "shared"
        config.write_text(f'version = 1\n[connectors.everything]\n{where}\nexpose = "tools"\nsession = "{session}"\n')
        url = stack.enter_context(_stack(home, config))
        trio.run(partial(_settled, url))
        yield url


@contextmanager
def _stack(home: Path, config: Path) -> Generator[str, None, None]:
    state = ["--state-dir", str(home / "state")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DELTA_")}
    log = home / "log"
    with log.open("wb") as output:
        command = [_PROGRAM, "up", *state, "--port", "0", "--config", str(config)]
        with subprocess.Popen(command, stdout=output, stderr=output, cwd=home, env=environment) as process:
            try:
                yield _address(process, [_PROGRAM, "status", "--json", *state], log)
            finally:
                process.terminate()
                process.wait(_STOP)


def _address(process: subprocess.Popen[bytes], status: list[str], log: Path) -> str:
    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        done = subprocess.run(status, capture_output=True, text=True, check=False)
        if done.returncode == 0 and (told := json.loads(done.stdout))["state"] == "ready":
            return next(str(each) for each in told["addresses"] if each.startswith("http://"))
        time.sleep(0.1)
    raise RuntimeError(f"the gateway did not start: {log.read_text(errors='replace')[-2000:]}")


async def _settled(url: str) -> None:
    """Return once clients are told of all that the server has."""
    with trio.fail_after(_START):
        while True:
            async with open_http(HttpParameters(url, era="legacy")) as client:
                tools = await client.list_tools()
                offered = json.loads(client.capabilities)
                if len(tools) > 10 and {"resources", "prompts", "completions", "logging"} <= set(offered):
                    prompts = json.loads(await client.request("prompts/list"))["prompts"]
                    resources = json.loads(await client.request("resources/list"))["resources"]
                    if prompts and resources:
                        return
            await trio.sleep(0.1)

"""One stack per state directory, shared by relays, and nothing of it left however it ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from tests.stack.harness import Stack, prepared, running
from tests.stack.probing import SCRIPT, Probe
from tests.stack.processes import alive, descendants, kill
from tests.stack.wire import StdioClient, facts_of, open_relay

DOUBLE_FORK = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
"""
IDLE = "version = 1\n[limits]\nidle = 2.0\n"


def test_nothing_is_left_when_supervisor_and_registry_are_killed_together(home: Path) -> None:
    probe = Probe(home / "probe")
    escaped = home / "escaped.pid"
    double = home / "double.py"
    with prepared(home, "version = 1\n" + forking(probe, double, escaped)) as stack:
        stack.start()
        stack.run('return (await probe.item.get("a")).value')
        assert stack.process is not None
        probe.wait(lambda p: escaped.exists())
        started = [process.pid for process in descendants(stack.process.pid)]
        hidden = int(escaped.read_text())
        assert alive(hidden)
        registry = stack.pid("registry")
        kill(stack.process.pid)
        kill(registry)
        until = time.monotonic() + 20
        while any(alive(pid) for pid in [*started, hidden]) and time.monotonic() < until:
            time.sleep(0.1)
        assert [pid for pid in [*started, hidden] if alive(pid)] == []


def forking(probe: Probe, script: Path, escaped: Path) -> str:
    """Return the probe's configuration with a script that first lets a grandchild escape into a session of its own."""
    script.write_text(
        DOUBLE_FORK.replace("sys.argv[1]", repr(str(escaped)))
        + f"\nexec(compile(open({str(SCRIPT)!r}).read(), 'probe.py', 'exec'))\n"
    )
    return probe.config().replace(str(SCRIPT), str(script))


def test_a_killed_stack_leaves_a_state_directory_that_the_next_one_takes(home: Path) -> None:
    with prepared(home) as stack:
        stack.start()
        assert stack.process is not None
        kill(stack.process.pid)
        stack.process.wait()
        stack.start()
        assert stack.run("return 1")["returned"] == 1
        assert stack.stop() == 0


def test_a_second_stack_on_one_state_directory_is_refused_by_name(stack: Stack) -> None:
    second = stack.cli("up")
    assert second.returncode != 0
    assert str(stack.state) in second.stderr


async def test_two_relays_started_at_once_share_one_stack_and_either_may_leave(home: Path) -> None:
    stack = Stack(home, IDLE)
    async with open_relay(stack) as first:
        async with open_relay(stack) as second, trio.open_nursery() as nursery:
            answers: list[str] = []

            async def ask(client: StdioClient, text: str) -> None:
                answer = await client.call("delta_read", code=f"return {text!r}")
                answers.append(facts_of(answer)["returned"])

            nursery.start_soon(ask, first, "first")
            nursery.start_soon(ask, second, "second")
        assert sorted(answers) == ["first", "second"]
        status = stack.status()
        again = await first.call("delta_read", code="return 3")
        assert facts_of(again)["returned"] == 3, "the second relay left, the first goes on"
        assert stack.pid("transport") == next(a["pid"] for a in status["actors"] if a["name"] == "transport")


@pytest.mark.parametrize("attempt", range(5))
async def test_two_relays_that_race_for_a_fresh_state_directory_get_the_same_stack(attempt: int, home: Path) -> None:
    stack = Stack(home, IDLE.replace("2.0", "30.0"))
    answers: list[int] = []

    async def client(number: int) -> None:
        async with open_relay(stack) as relay:
            answers.append(facts_of(await relay.call("delta_read", code=f"return {number}"))["returned"])

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client, 1)
            nursery.start_soon(client, 2)
    assert sorted(answers) == [1, 2]
    assert [actor["restarts"] for actor in stack.status()["actors"] if actor["restarts"]] == []
    assert stack.cli("down").returncode == 0


async def test_a_stack_that_a_relay_started_ends_some_time_after_its_last_client(home: Path) -> None:
    stack = Stack(home, IDLE)
    async with open_relay(stack) as client:
        await client.request("tools/list")
        assert stack.status_or_none() is not None
    with trio.fail_after(30):
        while stack.status_or_none() is not None:
            await trio.sleep(0.2)


async def test_a_relay_with_another_configuration_is_refused_by_name(home: Path) -> None:
    with running(home, IDLE) as stack:
        other = home / "other.toml"
        other.write_text("version = 1\n[limits]\nidle = 3.0\n")
        command = stack.command("stdio")
        command[command.index("--config") + 1] = str(other)
        done = await trio.run_process(command, stdin=b"", capture_stdout=True, capture_stderr=True, check=False)
        assert done.returncode == 78
        assert b"configuration" in done.stderr

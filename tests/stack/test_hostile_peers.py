"""Clients and processes that behave as nobody should: the stack serves the others, and tells the truth afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.stack.harness import Stack, running
from tests.stack.probing import Probe
from tests.stack.processes import kill
from tests.stack.wire import body, facts_of, open_http, open_relay, post_once, text_of

PATIENT = "version = 1\n[supervision]\nmax_restarts = 1000\nwindow = 10.0\nbackoff = 0.05\nbackoff_max = 0.2\n"
SLOW_CLIENTS = 150
CANCELS = 120
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n"


def port_of(stack: Stack) -> int:
    return int(stack.url.split(":")[2].split("/")[0])


async def drip(port: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Send a request a byte at a time, for ever."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        task_status.started()
        try:
            for byte in HEAD * 100:
                await stream.send_all(bytes([byte]))
                await trio.sleep(0.2)
        except trio.BrokenResourceError:
            return


async def test_clients_that_send_a_byte_at_a_time_hold_up_nobody_else(stack: Stack) -> None:
    port = port_of(stack)
    async with trio.open_nursery() as nursery:
        for _ in range(SLOW_CLIENTS):
            await nursery.start(drip, port)
        async with open_http(stack.url) as client:
            for number in range(5):
                with trio.fail_after(30):
                    answer = await client.call("delta_read", code=f"return {number}")
                assert facts_of(answer)["returned"] == number
        nursery.cancel_scope.cancel()
    transport = next(each for each in stack.status()["actors"] if each["name"] == "transport")
    assert (transport["state"], transport["restarts"]) == ("ready", 0)


async def test_a_storm_of_closed_streams_leaves_nothing_running(stack: Stack) -> None:
    chance = random.Random(7)
    url = stack.url

    async def impatient(number: int) -> None:
        arguments = {"code": f"await sleep(20000 + {number}); return 1"}
        with trio.move_on_after(chance.random() * 0.5):
            await post_once(url, body(number, "tools/call", {"name": "delta_read", "arguments": arguments}))

    async with trio.open_nursery() as nursery:
        for number in range(CANCELS):
            nursery.start_soon(impatient, number)
            await trio.sleep(0.01)
    async with open_http(stack.url) as client:
        with trio.fail_after(30):
            assert facts_of(await client.call("delta_read", code="return 'well'"))["returned"] == "well"
    with trio.fail_after(30):
        while any(each["in_flight"] for each in (stack.status_or_none() or {"actors": []})["actors"]):
            await trio.sleep(0.1)
    assert all(each["restarts"] == 0 for each in stack.status()["actors"])


async def test_an_actor_that_stands_still_is_replaced_and_work_goes_on(home: Path) -> None:
    actor = "registry"
    with running(home, PATIENT) as stack:
        async with open_relay(stack) as client:
            assert facts_of(await client.call("delta_read", code="return 1"))["returned"] == 1
            before = stack.pid(actor)
            os.kill(before, signal.SIGSTOP)
            with trio.fail_after(60):
                while _pid(stack, actor) in (None, before):
                    await trio.sleep(0.1)
            read = "return (await tickets.ticket.get('T-1')).id"
            with trio.fail_after(60):
                while "T-1" not in text_of(await client.call("delta_read", code=read)):
                    await trio.sleep(0.1)
        replaced = next(each for each in stack.status()["actors"] if each["name"] == actor)
        assert replaced["restarts"] == 1


async def test_a_transport_that_is_killed_again_while_it_comes_back_serves_in_the_end(home: Path) -> None:
    with running(home, PATIENT) as stack:
        async with open_relay(stack) as client:
            assert facts_of(await client.call("delta_read", code="return 1"))["returned"] == 1
            for _ in range(2):
                kill(stack.pid("transport"))
                with trio.fail_after(30):
                    while _pid(stack, "transport") is None:
                        await trio.sleep(0.01)
            with trio.fail_after(60):
                while "result" not in (answer := await client.call("delta_read", code="return 2")):
                    await trio.sleep(0.1)
            assert facts_of(answer)["returned"] == 2
        async with open_http(stack.url) as web:
            with trio.fail_after(30):
                assert facts_of(await web.call("delta_read", code="return 3"))["returned"] == 3


def _pid(stack: Stack, actor: str) -> int | None:
    status: dict[str, Any] = stack.status_or_none() or {"actors": []}
    found: list[int | None] = [each["pid"] for each in status["actors"] if each["name"] == actor]
    return found[0] if found else None


@pytest.mark.parametrize("victim", ["journal", "registry"])
async def test_an_undo_whose_actors_die_under_it_ends_as_the_world_is(victim: str, home: Path) -> None:
    probe = Probe(home / "probe")
    probe.put(a="before")
    with running(home, PATIENT + probe.config("--write-seconds", "1")) as stack:
        done = stack.run('const i = await probe.item.get("a"); i.value = "after";')
        assert done["delta"]["state"] == "applied", done
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, lambda: stack.cli("undo", "--json", done["delta"]["id"]))
            await trio.to_thread.run_sync(lambda: probe.wait(lambda p: len(p.events("call", "update_item")) == 2))
            kill(stack.pid(victim))
        stack.wait_ready()
        moving = {"applying", "undoing", "rolling_back", "planned"}
        with trio.fail_after(60):
            while (found := _states(stack)) and set(found.values()) & moving:
                await trio.sleep(0.2)
    undone = found[done["delta"]["id"]] == "undone"
    assert probe.items() == {"a": "before" if undone else "after"}, found


def _states(stack: Stack) -> dict[str, str]:
    listed = stack.cli("journal", "--json")
    assert listed.returncode == 0, listed.stderr
    return {each["id"]: each["state"] for each in json.loads(listed.stdout)["deltas"]}

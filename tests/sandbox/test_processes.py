"""The processes of the sandbox: jailed, one program each, reaped, replaced when they die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from delta_actors.sandbox import jail
from delta_actors.sandbox.cache import compiled_guest
from delta_actors.sandbox.pool import Pool, zygote_command
from delta_protocol.errors import ActorCrashed
from tests.sandbox.world import STATE, open_world

linux = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


def processes_of(parent: int) -> set[int]:
    children: set[int] = set()
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        children |= {int(pid) for pid in task.read_text().split()}
    return children


@asynccontextmanager
async def open_pool(size: int = 1) -> AsyncIterator[Pool]:
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    pool = Pool(STATE / "sandbox", size=size, memory=64 << 20, cpu=2.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run)
        yield pool
        nursery.cancel_scope.cancel()


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@linux
async def test_a_live_worker_has_no_power_left() -> None:
    async with open_pool() as pool, pool.worker() as worker:
        assert worker.pid is not None
        status = status_of(worker.pid)
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert status["Threads"] == "1"
        assert int(status["CapEff"], 16) == 0
        assert int(status["CapPrm"], 16) == 0
        if os.getuid() == 0:
            assert status["Uid"].split() == [str(jail.NOBODY)] * 4
            assert status["Gid"].split() == [str(jail.NOBODY)] * 4
            assert status["Groups"].strip() == ""
        assert Path(f"/proc/{worker.pid}/environ").read_bytes() == b""
        assert sorted(os.listdir(f"/proc/{worker.pid}/fd")) == ["0", "1", "2", "3"]
        assert {os.readlink(f"/proc/{worker.pid}/fd/{number}") for number in (0, 1, 2)} == {"/dev/null"}
        limits = Path(f"/proc/{worker.pid}/limits").read_text()
        assert "Max file size             0" in limits
        assert os.getsid(worker.pid) != os.getsid(0)
        assert pool.statistics()["landlock"] > 0


FORBIDDEN = [
    "os.open('/etc/hostname', 0)",
    "socket.socket()",
    "os.fork()",
    "os.kill(1, 0)",
    "os.execv('/bin/true', ['true'])",
    "os.unlink('/tmp/x')",
    "ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
]
JAILED = """
import ctypes, os, socket, sys
from delta_actors.sandbox import jail
parent = os.getppid()
socket.socket().close()
ctypes.CDLL(None).ptrace
jail.drop_identity()
jail.die_with_parent(parent)
jail.forbid_privileges()
jail.restrict_files()
jail.limit_resources(5.0)
assert jail.filter_calls()
{forbidden}
os._exit(9)
"""


@linux
@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_a_jailed_process_dies_of_what_it_may_not_do(forbidden: str) -> None:
    code = JAILED.format(forbidden=forbidden)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGSYS, (done.returncode, done.stderr)


@linux
def test_executable_memory_is_refused() -> None:
    code = """
import ctypes, mmap, os
from delta_actors.sandbox import jail
jail.forbid_privileges()
jail.filter_calls()
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
except PermissionError:
    os._exit(7)
os._exit(8)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 7


async def test_one_worker_runs_one_program_and_is_reaped() -> None:
    async with open_pool() as pool:
        seen: set[int] = set()
        for _ in range(4):
            async with pool.worker() as worker:
                assert worker.pid is not None
                seen.add(worker.pid)
            assert not Path(f"/proc/{worker.pid}").exists()
        assert len(seen) == 4
        zygote = pool.zygote_pid
    assert zygote is not None
    assert not Path(f"/proc/{zygote}").exists()


async def test_nothing_is_left_when_a_program_is_cancelled() -> None:
    async with open_world() as world:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.run, "for (;;) {}")
            with trio.fail_after(10):
                while world.sandbox.statistics()["running"] == 0:
                    await trio.sleep(0.01)
            zygote = world.sandbox.statistics()["zygote"]
            nursery.cancel_scope.cancel()
        with trio.fail_after(5):
            while world.sandbox.statistics()["running"]:
                await trio.sleep(0.01)
        assert len(processes_of(zygote)) <= 3
        assert await world.value("return 1") == 1
    assert not Path(f"/proc/{zygote}").exists()


async def test_the_zygotes_death_fails_running_programs_typed_and_a_new_one_serves() -> None:
    async with open_world() as world:
        assert await world.value("return 1") == 1
        zygote = world.sandbox.statistics()["zygote"]
        errors: list[ActorCrashed] = []

        async def run() -> None:
            try:
                await world.run("await tickets.slow({})")
            except ActorCrashed as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            with trio.fail_after(10):
                while not world.registry.running:
                    await trio.sleep(0.01)
            os.kill(zygote, signal.SIGKILL)
        assert errors[0].detail["executed"] == "no"
        assert await world.value("return 2") == 2
        assert world.sandbox.statistics()["zygote"] != zygote


async def test_a_workers_death_is_a_typed_error_and_the_next_program_runs() -> None:
    async with open_world() as world:
        await world.value("return 1")
        zygote = world.sandbox.statistics()["zygote"]
        before = processes_of(zygote)
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                error = await world.error("await tickets.slow({})")
                assert error.kind == "crash"

            nursery.start_soon(run)
            with trio.fail_after(10):
                while not world.registry.running:
                    await trio.sleep(0.01)
            for pid in before | processes_of(zygote):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        assert await world.value("return 2") == 2


async def test_the_zygote_outlives_the_thread_that_started_it() -> None:
    # trio starts processes from threads that end after ten idle seconds.
    async with open_pool() as pool:
        async with pool.worker():
            zygote = pool.zygote_pid
        await trio.sleep(15)
        assert pool.zygote_pid == zygote
        async with pool.worker():
            assert pool.zygote_pid == zygote


async def test_the_zygote_ends_with_its_control_socket() -> None:
    module = await compiled_guest(STATE / "sandbox")
    ours, theirs = socket.socketpair()
    settings = {"module": str(module), "memory": 64 << 20, "cpu": 2.0}
    process = await trio.lowlevel.open_process(
        zygote_command(settings, theirs.fileno()), env={}, cwd="/", pass_fds=[theirs.fileno()]
    )
    theirs.close()
    ours.settimeout(20)
    assert ours.recv(9)[:1] == b"Z"
    ours.close()
    with trio.fail_after(10):
        assert await process.wait() == 0

"""Supervision of real processes: restarts, what is held meanwhile, stopping, giving up."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from delta_actors.runtime import RestartIntensityExceeded
from delta_actors.runtime.supervising import CannotStart
from delta_protocol.config import ActorConfig
from delta_protocol.supervision import Strategy
from delta_protocol.wire.message import Role
from delta_supervisor import Supervisor
from delta_supervisor.spawn import Zygote
from tests.supervisor.conftest import MakeSupervisor, alive, config, until

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd")


@asynccontextmanager
async def running(supervisor: Supervisor) -> AsyncIterator[Supervisor]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await until(lambda: supervisor.is_ready)
        yield supervisor
        supervisor.stop()


def of(supervisor: Supervisor, role: Role) -> tuple[str, int | None, int]:
    status = next(each for each in supervisor.statistics() if each.name == role)
    return status.state, status.pid, status.restarts


def pid_of(supervisor: Supervisor, role: Role) -> int:
    pid = of(supervisor, role)[1]
    assert pid is not None
    return pid


async def test_children_start_side_by_side_and_are_ready_in_processes_of_their_own(supervise: MakeSupervisor) -> None:
    async with running(supervise(Role.AUTH, Role.JOURNAL, Role.REGISTRY)) as supervisor:
        pids = {status.pid for status in supervisor.statistics()}
        assert len(pids) == 3
        assert os.getpid() not in pids
        assert supervisor.is_alive


async def test_stopping_ends_children_in_reverse_order_and_reaps_them(supervise: MakeSupervisor, place: Path) -> None:
    async with running(supervise(Role.AUTH, Role.JOURNAL, Role.REGISTRY)) as supervisor:
        pids = supervisor.pids
    assert (place / "stopped").read_text().split() == ["registry", "journal", "auth"]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def test_a_killed_child_is_back_with_the_next_incarnation(supervise: MakeSupervisor) -> None:
    async with running(supervise(Role.AUTH, Role.JOURNAL)) as supervisor:
        killed, other = pid_of(supervisor, Role.JOURNAL), pid_of(supervisor, Role.AUTH)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: of(supervisor, Role.JOURNAL)[2] == 1 and supervisor.is_ready)
        status = next(each for each in supervisor.statistics() if each.name == "journal")
        assert status.pid != killed
        assert status.incarnation == 2
        assert "SIGKILL" in status.error
        assert pid_of(supervisor, Role.AUTH) == other


async def test_connections_wait_while_a_child_is_down(supervise: MakeSupervisor, place: Path) -> None:
    async with running(supervise(Role.JOURNAL)) as supervisor:
        os.kill(pid_of(supervisor, Role.JOURNAL), signal.SIGKILL)
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place / "journal.sock"))
        await until(lambda: of(supervisor, Role.JOURNAL)[2] == 1 and supervisor.is_ready)


async def test_a_lazy_child_starts_when_somebody_connects(supervise: MakeSupervisor, place: Path) -> None:
    async with running(supervise(Role.AUTH, Role.RESULTS, lazy=(Role.RESULTS,))) as supervisor:
        assert of(supervisor, Role.RESULTS) == ("exited", None, 0)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place / "results.sock"))
            await until(lambda: of(supervisor, Role.RESULTS)[0] == "ready")
            client.shutdown(socket.SHUT_WR)
            assert await trio.to_thread.run_sync(client.recv, 1) == b""
        os.kill(pid_of(supervisor, Role.RESULTS), signal.SIGKILL)
        await until(lambda: of(supervisor, Role.RESULTS) == ("exited", None, 1))


async def test_a_child_that_misses_its_heartbeat_is_killed_and_replaced(supervise: MakeSupervisor, place: Path) -> None:
    async with running(supervise(Role.JOURNAL)) as supervisor:
        stuck = pid_of(supervisor, Role.JOURNAL)
        (place / "stuck-journal").touch()
        await until(lambda: not alive(stuck))
        (place / "stuck-journal").unlink()
        await until(lambda: of(supervisor, Role.JOURNAL)[2] >= 1 and supervisor.is_ready)
        status = supervisor.statistics()[0]
        assert "heartbeat" in status.error


async def test_a_stopped_process_is_found_and_killed(supervise: MakeSupervisor) -> None:
    async with running(supervise(Role.JOURNAL)) as supervisor:
        stopped = pid_of(supervisor, Role.JOURNAL)
        os.kill(stopped, signal.SIGSTOP)
        await until(lambda: of(supervisor, Role.JOURNAL)[2] == 1 and supervisor.is_ready)
        assert not alive(stopped)


async def test_dying_too_often_stops_everything_and_escalates(supervise: MakeSupervisor, place: Path) -> None:
    supervisor = supervise(Role.AUTH, Role.JOURNAL, settings=config(max_restarts=2))
    (place / "crash-journal").touch()
    with pytest.RaisesGroup(RestartIntensityExceeded, flatten_subgroups=True, allow_unwrapped=True) as caught:
        with trio.fail_after(30):
            await supervisor.run()
    assert "journal" in str(caught.value)
    assert of(supervisor, Role.AUTH)[1] is None
    assert of(supervisor, Role.JOURNAL)[2] == 2


async def test_a_child_that_refuses_to_start_says_why_and_is_not_tried_again(
    supervise: MakeSupervisor, place: Path
) -> None:
    (place / "refuse-journal").touch()
    supervisor = supervise(Role.AUTH, Role.JOURNAL)
    with pytest.RaisesGroup(CannotStart, flatten_subgroups=True, allow_unwrapped=True) as caught:
        with trio.fail_after(30):
            await supervisor.run()
    assert "told to refuse" in str(caught.value)
    assert of(supervisor, Role.JOURNAL)[2] == 0
    assert of(supervisor, Role.AUTH)[1] is None


async def test_rest_for_one_restarts_the_child_and_those_after_it(supervise: MakeSupervisor) -> None:
    roles = (Role.AUTH, Role.JOURNAL, Role.REGISTRY)
    async with running(supervise(*roles, strategy=Strategy.REST_FOR_ONE)) as supervisor:
        before = [pid_of(supervisor, role) for role in roles]
        os.kill(before[1], signal.SIGKILL)
        await until(lambda: of(supervisor, Role.REGISTRY)[2] == 1 and supervisor.is_ready)
        after = [pid_of(supervisor, role) for role in roles]
        assert after[0] == before[0]
        assert after[1] != before[1]
        assert after[2] != before[2]


async def test_a_killed_zygote_is_replaced_and_children_live_on(supervise: MakeSupervisor, zygote: Zygote) -> None:
    async with running(supervise(Role.JOURNAL)) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(zygote.run)
        child, first = pid_of(supervisor, Role.JOURNAL), zygote.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: zygote.pid != first)
        assert pid_of(supervisor, Role.JOURNAL) == child
        os.kill(child, signal.SIGKILL)
        await until(lambda: of(supervisor, Role.JOURNAL)[2] >= 1 and supervisor.is_ready)
        nursery.cancel_scope.cancel()


async def test_a_child_that_does_not_stop_is_ended_within_its_bound(supervise: MakeSupervisor, place: Path) -> None:
    settings = config(journal=ActorConfig(heartbeat=60.0, heartbeat_timeout=60.0, stop_timeout=0.3))
    async with running(supervise(Role.AUTH, Role.JOURNAL, settings=settings)) as supervisor:
        stuck = pid_of(supervisor, Role.JOURNAL)
        (place / "stuck-journal").touch()
        await trio.sleep(0.3)
    assert not alive(stuck)
    assert (place / "stopped").read_text().split() == ["auth"]

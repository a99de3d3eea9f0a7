"""The life of an actor process, as its parent sees it (actors 3.2, 3.4)."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from delta_actors.runtime import Actor
from delta_actors.runtime.control import EXIT_CONFIGURATION, open_control
from delta_actors.runtime.process import EXIT_CRASHED, EXIT_DONE, load_actor
from delta_protocol.errors import ActorCrashed, ActorUnavailable, Internal, Invalid, Refused
from delta_protocol.wire.control import Heartbeat, Stop
from delta_protocol.wire.message import Done
from tests.runtime.actors import WORKER, BadlyConfigured, Block, BrokenAtStart, Echo, Fail, Sleep, WorkerActor
from tests.runtime.placement import Processes, processes

PATIENCE = 30.0


@asynccontextmanager
async def one(tmp_path: Path, actor: type[Actor] = WorkerActor) -> AsyncIterator[Processes]:
    """A parent that has started nothing yet."""
    async with processes(tmp_path, {}) as system:
        system.add(WORKER, actor)
        yield system


async def exit_code(system: Processes) -> int:
    with trio.fail_after(PATIENCE):
        return await trio.to_thread.run_sync(system.processes[WORKER].wait)


async def test_an_actor_starts_beats_stops_and_exits(tmp_path: Path) -> None:
    async with one(tmp_path) as system:
        async with open_control(system.spawn(WORKER)) as control:
            started = await control.ask(system.start_message(WORKER))
            assert started.addresses == (f"test:{WORKER}/1",)
            worker = system.ref(WORKER, as_="transport")
            await worker.ask(Echo(b"x"))
            figures = await control.ask(Heartbeat())
            assert (figures.handled, figures.failed, figures.links, figures.in_flight) == (1, 0, 1, 0)
            assert b'"notes":0' in figures.extra
            with trio.fail_after(PATIENCE):
                assert await control.ask(Stop()) == Done()
                await control.closed.wait()
        assert await exit_code(system) == EXIT_DONE


async def test_it_can_be_started_only_once(tmp_path: Path) -> None:
    async with one(tmp_path) as system, open_control(system.spawn(WORKER)) as control:
        await control.ask(system.start_message(WORKER))
        with pytest.raises(Refused):
            await control.ask(system.start_message(WORKER))
        await control.ask(Heartbeat())


async def test_a_stop_lets_running_handlers_finish_and_takes_nothing_new(tmp_path: Path) -> None:
    async with one(tmp_path) as system, open_control(system.spawn(WORKER)) as control:
        await control.ask(system.start_message(WORKER))
        worker = system.ref(WORKER, as_="transport")
        outcomes: list[object] = []

        async def ask() -> None:
            outcomes.append(await worker.ask(Sleep("last", 0.5)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while (await control.ask(Heartbeat())).in_flight == 0:
                await trio.sleep(0.01)
            nursery.start_soon(control.ask, Stop())
            await trio.sleep(0.1)
            with pytest.raises(ActorUnavailable):
                await worker.ask(Echo(b"too late"))
        assert outcomes == [Done()]
        assert await exit_code(system) == EXIT_DONE


async def test_a_stop_cuts_what_outlasts_it(tmp_path: Path) -> None:
    async with one(tmp_path) as system, open_control(system.spawn(WORKER)) as control:
        await control.ask(system.start_message(WORKER))
        worker = system.ref(WORKER, as_="transport")

        async def ask() -> None:
            with pytest.raises(ActorCrashed):
                await worker.ask(Sleep("endless", 3600))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while (await control.ask(Heartbeat())).in_flight == 0:
                await trio.sleep(0.01)
            with trio.fail_after(1.0):
                await control.ask(Stop())
        assert await exit_code(system) == EXIT_DONE


async def test_an_orphan_ends_by_itself(tmp_path: Path) -> None:
    async with one(tmp_path) as system:
        async with open_control(system.spawn(WORKER)) as control:
            await control.ask(system.start_message(WORKER))
        assert await exit_code(system) == EXIT_DONE


async def test_an_orphan_that_was_never_started_ends_by_itself(tmp_path: Path) -> None:
    async with one(tmp_path) as system:
        async with open_control(system.spawn(WORKER)):
            pass
        assert await exit_code(system) == EXIT_DONE


async def test_an_orphan_that_blocks_is_ended_by_its_alarm(tmp_path: Path) -> None:
    async with one(tmp_path) as system, trio.open_nursery() as links:
        async with open_control(system.spawn(WORKER)) as control:
            await control.ask(system.start_message(WORKER))
            worker = system.ref(WORKER, as_="transport", nursery=links)
            # Not cancellable: the orphan stops gracefully first and then sits in this.
            links.start_soon(outlive, worker.ask, Sleep("stubborn", 3600, stubborn=3600))
            while (await control.ask(Heartbeat())).in_flight == 0:
                await trio.sleep(0.01)
        assert await exit_code(system) == -signal.SIGALRM
        links.cancel_scope.cancel()


async def outlive(ask: object, request: object) -> None:
    with pytest.raises(ActorCrashed):
        await ask(request)  # type: ignore[operator]


async def test_sigterm_stops_it_too(tmp_path: Path) -> None:
    async with one(tmp_path) as system, open_control(system.spawn(WORKER)) as control:
        await control.ask(system.start_message(WORKER))
        system.processes[WORKER].terminate()
        assert await exit_code(system) == EXIT_DONE


async def test_a_stuck_actor_misses_its_heartbeat(tmp_path: Path) -> None:
    async with one(tmp_path) as system, trio.open_nursery() as links:
        async with open_control(system.spawn(WORKER)) as control:
            await control.ask(system.start_message(WORKER))
            links.start_soon(outlive, system.ref(WORKER, as_="transport", nursery=links).ask, Block(3600))
            await trio.sleep(0.3)
            with pytest.raises(trio.TooSlowError), trio.fail_after(0.5):
                await control.ask(Heartbeat())
            system.processes[WORKER].kill()
            with trio.fail_after(PATIENCE):
                await control.closed.wait()
        links.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("actor", "error", "words", "code"),
    [
        (BadlyConfigured, Invalid, "worker.colour", EXIT_CONFIGURATION),
        (BrokenAtStart, Internal, "the disk is on fire", EXIT_CRASHED),
    ],
)
async def test_a_start_that_fails_says_why_and_exits(
    tmp_path: Path, actor: type[Actor], error: type[Exception], words: str, code: int
) -> None:
    async with one(tmp_path, actor) as system, open_control(system.spawn(WORKER)) as control:
        with pytest.raises(error, match=words):
            await control.ask(system.start_message(WORKER))
        assert await exit_code(system) == code


async def test_a_factory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with one(tmp_path) as system, open_control(system.spawn(WORKER)) as control:
        wrong = msgspec.structs.replace(system.start_message(WORKER), factory="no_such:Actor")
        with pytest.raises(Invalid, match="no_such:Actor"):
            await control.ask(wrong)
        assert await exit_code(system) == EXIT_CONFIGURATION


async def test_an_actor_whose_own_task_fails_exits_as_crashed(tmp_path: Path) -> None:
    async with one(tmp_path) as system, trio.open_nursery() as links:
        async with open_control(system.spawn(WORKER)) as control:
            await control.ask(system.start_message(WORKER))
            links.start_soon(outlive, system.ref(WORKER, as_="transport", nursery=links).ask, Fail("crash"))
            assert await exit_code(system) == EXIT_CRASHED
        links.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["", "os:path", "os", "delta_actors.results:Nothing"])
def test_what_is_no_actor_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        load_actor("no_such_role", name)

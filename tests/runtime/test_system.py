"""Actors as tasks of somebody's program: start, supervision, end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from delta_actors.runtime import Actor, Context, RestartIntensityExceeded, System, open_actors
from delta_protocol.errors import ActorCrashed
from delta_protocol.supervision import Backoff, Intensity, Restart, Strategy
from tests.runtime.actors import ASKS, BrokenAtStart, Echo, Fail, Notes, Sleep, Told, WorkerActor, config

QUICK = Backoff(0.01, 0.05)
NAMES = ("a", "b", "c")
CHAIN = {"operator": frozenset(NAMES), **{name: frozenset[str]() for name in NAMES}}


def named(name: str, log: list[str]) -> type[Actor]:
    class Named(WorkerActor):
        role = name
        inboxes = {name: WorkerActor.inboxes[next(iter(WorkerActor.inboxes))]}  # noqa: RUF012

        async def start(self, context: Context) -> tuple[str, ...]:
            log.append(f"+{name}")
            return await super().start(context)

        async def stop(self) -> None:
            log.append(f"-{name}")

    return Named


def classes(log: list[str]) -> Mapping[str, type[Actor]]:
    return {name: named(name, log) for name in NAMES}


async def back(system: System, role: str, restarts: int) -> None:
    with trio.fail_after(20):
        while system.restarts(role) < restarts:
            await trio.sleep(0.01)
        await system.ref(role, as_="operator").ask(Echo(b"x"))


async def crash(system: System, role: str) -> None:
    with pytest.raises(ActorCrashed):
        await system.ref(role, as_="operator").ask(Fail("crash"))


async def test_they_stop_last_first(tmp_path: Path) -> None:
    log: list[str] = []
    async with open_actors(classes(log), config=config(), state_dir=tmp_path, asks=CHAIN) as system:
        assert system.addresses("b") == ("test:b/1",)
        assert sorted(log) == ["+a", "+b", "+c"]
    assert log[3:] == ["-c", "-b", "-a"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ONE_FOR_ONE, ["-b", "+b"]),
        (Strategy.REST_FOR_ONE, ["-b", "-c", "+b", "+c"]),
        (Strategy.ONE_FOR_ALL, ["-b", "-c", "-a", "+a", "+b", "+c"]),
    ],
)
async def test_a_crash_restarts_whom_the_strategy_says(tmp_path: Path, strategy: Strategy, expected: list[str]) -> None:
    log: list[str] = []
    async with open_actors(
        classes(log), config=config(), state_dir=tmp_path, asks=CHAIN, strategy=strategy, backoff=QUICK
    ) as system:
        del log[:]
        await crash(system, "b")
        await back(system, "b", 1)
        await back(system, "c", expected.count("+c"))
        assert log == expected


async def test_a_restarted_actor_has_forgotten_everything(tmp_path: Path) -> None:
    async with open_actors(classes([]), config=config(), state_dir=tmp_path, asks=CHAIN, backoff=QUICK) as system:
        ref = system.ref("a", as_="operator")
        await ref.tell(Told("remember"))
        assert await ref.ask(Notes()) == ("remember",)
        await crash(system, "a")
        assert await ref.ask(Notes()) == ()


async def test_a_temporary_actor_stays_down(tmp_path: Path) -> None:
    async with open_actors(
        classes([]), config=config(), state_dir=tmp_path, asks=CHAIN, restart={"a": Restart.TEMPORARY}
    ) as system:
        await crash(system, "a")
        await trio.sleep(0.05)
        assert system.restarts("a") == 0
        assert await system.ref("b", as_="operator").ask(Echo(b"x")) == b"x"


async def test_crashing_too_often_stops_everything_and_says_so(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.RaisesGroup(RestartIntensityExceeded, flatten_subgroups=True):
        async with open_actors(
            classes(log),
            config=config(),
            state_dir=tmp_path,
            asks=CHAIN,
            backoff=QUICK,
            intensity=Intensity(2, 60.0),
        ) as system:
            for restarts in (1, 2):
                await crash(system, "b")
                await back(system, "b", restarts)
            await crash(system, "b")
            await trio.sleep_forever()
    assert sorted(log[-3:]) == ["-a", "-b", "-c"]


async def test_a_first_start_that_fails_is_the_openers_error(tmp_path: Path) -> None:
    log: list[str] = []

    class Broken(BrokenAtStart):
        role = "b"

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="on fire"), flatten_subgroups=True):
        async with open_actors({**classes(log), "b": Broken}, config=config(), state_dir=tmp_path, asks=CHAIN):
            pytest.fail("opened")


async def test_a_circle_of_waits_is_refused(tmp_path: Path) -> None:
    circle = {"a": frozenset({"b"}), "b": frozenset({"a"})}
    with pytest.raises(ValueError, match=r"(a -> b|b -> a)"):
        async with open_actors({}, state_dir=tmp_path, asks=circle):
            pytest.fail("opened")


async def test_an_edge_that_the_table_does_not_have_cannot_be_opened(tmp_path: Path) -> None:
    async with open_actors(classes([]), config=config(), state_dir=tmp_path, asks=CHAIN) as system:
        with pytest.raises(KeyError, match="a may not ask b"):
            system.ref("b", as_="a")


async def test_nothing_stays_open_after_the_end(tmp_path: Path) -> None:
    async def once() -> None:
        async with open_actors(classes([]), config=config(), state_dir=tmp_path, asks=CHAIN) as system:
            async with trio.open_nursery() as nursery:
                ref = system.ref("a", as_="operator")
                nursery.start_soon(ref.ask, Sleep("s", 60))
                await trio.sleep(0.02)
                nursery.cancel_scope.cancel()

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await once()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_stack_s_own_table_is_acyclic_and_a_circle_would_be_found() -> None:
    from delta_protocol.wire.table import ASKS as STACK
    from delta_protocol.wire.table import cycle

    assert cycle(STACK) == ()
    assert cycle(ASKS) == ()
    assert cycle({"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"b"})}) in {
        ("b", "c", "b"),
        ("c", "b", "c"),
    }

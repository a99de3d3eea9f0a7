"""What a caller may rely on, over both placements (actors 2.5, 3.3; architecture 2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from delta_actors.runtime import Ref, speaking_for
from delta_protocol.errors import (
    ActorCrashed,
    ActorUnavailable,
    Conflict,
    DeadlineExceeded,
    Internal,
    Invalid,
    Overloaded,
    Refused,
)
from delta_protocol.wire.message import SYSTEM, Item, Origin, Principal, Progress
from tests.runtime.actors import (
    CREDIT,
    FRONT,
    WORKER,
    Count,
    Echo,
    EchoInline,
    Enquire,
    Fail,
    FrontActor,
    Notes,
    Relay,
    Sleep,
    SleepOn,
    Told,
    Unanswered,
    WhoAmI,
    Words,
    WorkerActor,
)
from tests.runtime.placement import Running, running

PATIENCE = 20.0
ALICE = Principal("alice", "token", ("write",))


@pytest.fixture(params=["task", "process"])
def placement(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def system(placement: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(placement, tmp_path) as system:
        yield system


@pytest.fixture
def worker(system: Running) -> Ref:
    return system.ref(WORKER, as_="transport")


async def noted(worker: Ref, note: str) -> tuple[str, ...]:
    """Wait until the worker has noted this; return all notes."""
    with trio.fail_after(PATIENCE):
        while note not in (notes := await worker.ask(Notes())):
            await trio.sleep(0.01)
    return notes


@asynccontextmanager
async def in_background(worker: Ref, request: Sleep | SleepOn) -> AsyncIterator[trio.CancelScope]:
    """Ask in a task; the block runs once the handler does (a SleepOn notes nothing at first)."""
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def ask() -> None:
            with scope:
                await worker.ask(request)

        nursery.start_soon(ask)
        await noted(worker, f"{request.name} began")
        yield scope
        scope.cancel()


@pytest.mark.parametrize("size", [0, 10, 65_530, 65_536, 3_000_000])
async def test_an_ask_is_answered_whatever_its_size(worker: Ref, size: int) -> None:
    assert await worker.ask(Echo(b"x" * size)) == b"x" * size
    assert await worker.ask(EchoInline(b"x" * size)) == b"x" * size


async def test_two_thousand_asks_at_once_are_all_answered(worker: Ref) -> None:
    right: list[int] = []

    async def ask(number: int) -> None:
        value = b"%d" % number * (1 + number % 50)
        if await worker.ask(Echo(value)) == value:
            right.append(number)

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(2000):
                nursery.start_soon(ask, number)
    assert len(right) == 2000


async def test_events_arrive_in_the_order_they_were_told(worker: Ref) -> None:
    for number in range(200):
        await worker.tell(Told(f"{number}" * (1 if number % 50 else 40_000)))
    notes = await worker.ask(Notes())
    assert [note[:3] for note in notes] == [(f"{n}" * 3)[:3] if n % 50 == 0 else f"{n}" for n in range(200)]


async def test_a_typed_error_crosses_with_its_detail(worker: Ref) -> None:
    with pytest.raises(Conflict) as caught:
        await worker.ask(Fail("conflict"))
    assert caught.value.detail == {"field": "status"}
    with pytest.raises(Conflict):
        await worker.ask(Fail("group"))


async def test_any_other_error_is_internal_and_says_nothing_but_an_id(worker: Ref) -> None:
    for kind in ("bug", "unencodable"):
        with pytest.raises(Internal) as caught:
            await worker.ask(Fail(kind))
        assert "secret" not in caught.value.message
        assert len(caught.value.detail["correlation"]) == 12


async def test_a_request_without_a_handler_is_refused_by_name(worker: Ref) -> None:
    with pytest.raises(Invalid, match="Unanswered"):
        await worker.ask(Unanswered())


async def test_a_handler_ends_at_its_callers_deadline(worker: Ref) -> None:
    with pytest.raises((trio.TooSlowError, DeadlineExceeded)):
        with trio.fail_after(0.2):
            await worker.ask(Sleep("nap", PATIENCE))
    assert "nap done" not in await noted(worker, "nap late")


async def test_a_deadline_shrinks_on_its_way_down(placement: str, tmp_path: Path) -> None:
    async with running(placement, tmp_path, {WORKER: WorkerActor, FRONT: FrontActor}) as system:
        with trio.fail_after(PATIENCE):
            who = await system.ref(FRONT, as_="transport").ask(Relay())
    assert 0 < who.seconds_left < PATIENCE


async def test_a_cancelled_call_cancels_its_handler_and_gives_its_credit_back_when_that_has_ended(
    worker: Ref,
) -> None:
    for number in range(2 * CREDIT):
        async with in_background(worker, Sleep(f"{number}", PATIENCE, stubborn=0.01)) as scope:
            scope.cancel()
        await noted(worker, f"{number} cancelled")
    # All credit is back: as many calls as were granted run at once.
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(CREDIT):
                nursery.start_soon(worker.ask, Sleep(f"again {number}", 0.0))


async def test_without_credit_an_edge_is_refused_and_others_wait(worker: Ref) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(CREDIT):
            nursery.start_soon(worker.ask, Sleep(f"{number}", 0.5))
        await trio.testing.wait_all_tasks_blocked(0.02)
        with pytest.raises(Overloaded) as caught:
            await worker.ask(Echo(b"me too"), nowait=True)
        assert caught.value.detail["retry_after"] > 0
        with pytest.raises(trio.TooSlowError), trio.fail_after(0.05):
            await worker.ask(Echo(b"me too"))
        with trio.fail_after(PATIENCE):
            assert await worker.ask(Echo(b"me too")) == b"me too"


async def test_a_lost_caller_cancels_the_handler_unless_it_is_kept(system: Running) -> None:
    watcher = system.ref(WORKER, as_="transport")
    async with trio.open_nursery() as asking, trio.open_nursery() as links:
        leaver = system.ref(WORKER, as_="transport", nursery=links)

        async def ask(request: Sleep | SleepOn) -> None:
            with pytest.raises(ActorCrashed):
                await leaver.ask(request)

        asking.start_soon(ask, Sleep("plain", PATIENCE))
        asking.start_soon(ask, SleepOn("kept", 0.05))
        await noted(watcher, "plain began")
        await trio.testing.wait_all_tasks_blocked(0.05)
        links.cancel_scope.cancel()
    await noted(watcher, "plain lost")
    assert "kept saw the loss" in await noted(watcher, "kept done")


async def test_items_flow_down_in_order_and_wait_for_a_slow_caller(worker: Ref) -> None:
    seen: list[float] = []

    async def listener(item: Item) -> None:
        assert isinstance(item, Progress)
        if not seen:
            await trio.sleep(0.2)
            assert len(await noted(worker, "emitted 1")) <= 20
        seen.append(item.progress)

    await worker.ask(Count(100), listener=listener)
    assert seen == [float(number) for number in range(1, 101)]


async def test_items_nobody_listens_to_hold_nothing_up(worker: Ref) -> None:
    with trio.fail_after(PATIENCE):
        await worker.ask(Count(100))


async def test_a_stream_gives_items_and_leaving_it_cancels_the_call(worker: Ref) -> None:
    async with worker.stream(Count(3)) as items:
        assert [item.progress async for item in items if isinstance(item, Progress)] == [1.0, 2.0, 3.0]
    async with worker.stream(Count(10_000)) as items:
        async for _ in items:
            break
    assert len(await worker.ask(Notes())) < 100
    with pytest.raises(Conflict):
        async with worker.stream(Fail("conflict")) as items:
            assert [item async for item in items] == []


async def test_a_question_is_answered_by_the_caller(worker: Ref) -> None:
    async def listener(item: Item) -> Item:
        assert isinstance(item, Words)
        return Words(item.words.upper())

    assert await worker.ask(Enquire("name?" * 20_000), listener=listener) == b"NAME?" * 20_000


async def test_a_question_that_cannot_be_answered_fails_at_once(worker: Ref) -> None:
    async def unwilling(item: Item) -> Item:
        raise Conflict("not now")

    with pytest.raises(Conflict):
        await worker.ask(Enquire("name?"), listener=unwilling)
    with trio.fail_after(PATIENCE), pytest.raises(Refused):
        await worker.ask(Enquire("name?"))


async def test_a_crash_fails_what_is_in_flight_and_the_next_ask_meets_the_successor(
    system: Running, worker: Ref
) -> None:
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ActorCrashed) as caught:
                await worker.ask(Sleep("doomed", PATIENCE))
            assert caught.value.detail == {"actor": WORKER, "incarnation": 1, "executed": "unknown"}

        nursery.start_soon(ask)
        await noted(worker, "doomed began")
        await system.kill(WORKER)
    with trio.fail_after(PATIENCE):
        # Not "doomed": what was in flight did not run again.
        assert await worker.ask(Notes()) == ()


async def test_asks_made_during_a_restart_wait_for_the_successor(system: Running, worker: Ref) -> None:
    await worker.ask(Echo(b""))
    for _ in range(3):
        answered = 0

        async def ask() -> None:
            nonlocal answered
            try:
                await worker.ask(Echo(b"x"))
            except ActorCrashed:
                pass
            answered += 1

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(system.kill, WORKER)
                for _ in range(50):
                    nursery.start_soon(ask)
                    await trio.sleep(0.002)
        assert answered == 50


async def test_an_actor_that_does_not_come_back_is_unavailable_before_the_deadline(tmp_path: Path) -> None:
    async with running("process", tmp_path) as system:
        # Nobody runs the front actor, though its socket is held open in neither case.
        listening = system.ref(WORKER, as_="transport")
        await listening.ask(Echo(b""))
        system.processes[WORKER].kill()  # type: ignore[attr-defined]
        with pytest.raises(ActorUnavailable), trio.fail_after(0.5):
            while True:
                try:
                    await listening.ask(Echo(b""))
                except ActorCrashed:
                    continue


async def test_principal_and_origin_are_inherited_by_nested_asks(placement: str, tmp_path: Path) -> None:
    origin = Origin("conversation-7", "12")
    async with running(placement, tmp_path, {WORKER: WorkerActor, FRONT: FrontActor}) as system:
        front = system.ref(FRONT, as_="transport")
        with speaking_for(ALICE, origin, "00-abc-def-01"):
            direct = await front.ask(WhoAmI())
            nested = await front.ask(Relay())
        explicit = await front.ask(WhoAmI(), principal=ALICE, origin=origin)
        nobody = await front.ask(WhoAmI())
    assert (direct.caller, direct.principal, direct.conversation, direct.trace) == (
        "transport",
        ALICE,
        "conversation-7",
        "00-abc-def-01",
    )
    assert explicit.principal == ALICE
    assert explicit.conversation == "conversation-7"
    assert nobody.principal == SYSTEM
    # `front` is no role that may speak for others, so its word about the principal does not count.
    assert (nested.caller, nested.principal) == (FRONT, SYSTEM)
    assert (nested.conversation, nested.trace) == ("conversation-7", "00-abc-def-01")


async def test_a_link_that_may_not_speak_for_others_speaks_for_itself(system: Running) -> None:
    who = await system.ref(WORKER, as_="operator").ask(WhoAmI(), principal=ALICE)
    assert who.principal == Principal("operator", "operator")

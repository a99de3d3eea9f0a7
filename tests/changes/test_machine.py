"""Invariants I1 to I7 (plan-apply-undo 5.17) over random programs, faults, crashes and foreign writers."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_protocol.changes.holes import pack, reference
from delta_protocol.changes.images import NOTHING
from delta_protocol.changes.model import (
    CallState,
    DeltaState,
    EntityChange,
    EntityRef,
    Plan,
    Recording,
    Reversibility,
    Write,
)
from delta_protocol.changes.plan import build_plan, verify
from delta_protocol.changes.states import CALL, DELTA, MADE
from delta_protocol.changes.undo import build_undo, reads_needed
from delta_protocol.codecs import exact_json
from tests.changes.catalogues import catalogue
from tests.changes.model_store import Crash, Driver, looked_up, machine
from tests.journal.world import World

WORDS = st.sampled_from(["open", "closed", "late", "a", "b"])
FAULTS = st.sampled_from(["fails", "refused", "busy", "lies", "silent", "commits silently", "normalises"])
QUIET = settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow])


def world_of_two() -> World:
    world = World()
    world.tickets["T-2"] = copy.deepcopy(world.tickets["T-1"]) | {"id": "T-2", "comments": []}
    return world


@st.composite
def programs(draw: st.DrawFn) -> Recording:
    """Changes of two tickets, creations with comments on what was created, deletions, batches, direct calls."""
    world = world_of_two()
    changes: list[EntityChange] = []
    for seq, (key, before) in enumerate(world.tickets.items(), 1):
        after = copy.deepcopy(before)
        if draw(st.booleans()):
            after |= draw(
                st.fixed_dictionaries({}, optional={"status": WORDS, "title": WORDS, "labels": st.lists(WORDS)})
            )
        after["comments"] += [{"body": body} for body in draw(st.lists(WORDS, max_size=2))]
        if draw(st.booleans()):
            after["comments"] = [each for each in after["comments"] if each.get("id") != 1]
        entity = EntityRef("tickets", "ticket", exact_json.encode(key))
        changes.append(EntityChange(entity, exact_json.encode(before), pack(after), (), seq))
    writes: list[Write] = []
    for number in range(1, draw(st.integers(0, 3)) + 1):
        kind = draw(st.sampled_from(["create", "comment", "entities", "relations"]))
        writes.append(_write(number, kind, draw(WORDS), writes))
    return Recording(tuple(changes), tuple(writes))


def _write(number: int, kind: str, word: str, earlier: list[Write]) -> Write:
    made = next((each.id for each in earlier if each.tool == "create_ticket"), None)
    more: dict[str, Any] = {"operation": "create"}
    match kind:
        case "comment" if made is not None:
            tool, arguments, more = "add_comment", {"id": reference(made, ("id",)), "body": word}, {}
        case "entities":
            tool = "create_entities"
            arguments = {"entities": [{"name": f"{word}{number}", "entityType": "x", "observations": []}]}
        case "relations":
            tool = "create_relations"
            arguments = {"relations": [{"from": f"{word}{number}", "to": "x", "relationType": "y"}]}
        case _:
            tool, arguments = "create_ticket", {"title": word}
    connector = "graph" if tool.endswith(("entities", "relations")) else "tickets"
    return Write(number, connector, tool, pack(arguments), seq=10 + number, line=number, **more)


def plain(world: World) -> Any:
    """Return the world without what nobody can restore: ids of new elements and their order."""
    tickets = copy.deepcopy(world.tickets)
    for ticket in tickets.values():
        ticket["comments"] = sorted(each["body"] for each in ticket["comments"])
    return [tickets, world.entities, sorted(json.dumps(each) for each in world.relations)]


def made_of(recording: Recording, world: World | None = None) -> tuple[Plan, World]:
    plan, world = build_plan(recording, catalogue()), world or world_of_two()
    verify(plan, catalogue())
    return looked_up(plan, catalogue(), world), world


@QUIET
@given(programs())
def test_applied_is_what_was_planned_and_undo_brings_back_what_was(recording: Recording) -> None:
    plan, world = made_of(recording)
    before = world.state()
    driver = Driver(world)
    steps = machine(plan)
    assert world.writes == []
    assert driver.run(steps.run()) is DeltaState.APPLIED
    assert len(driver.sent) == len(plan.calls)
    for call, (tool, arguments) in zip(plan.calls, driver.sent, strict=True):
        assert call.tool == tool
        assert steps.progress.filled(call.arguments) == arguments
    for change in recording.changes:
        wanted, now = json.loads(change.after.json), world.tickets[json.loads(change.entity.key)]
        assert {key: now[key] for key in ("status", "title", "labels")} == {
            key: wanted[key] for key in ("status", "title", "labels")
        }
        assert sorted(each["body"] for each in now["comments"]) == sorted(each["body"] for each in wanted["comments"])
    assert all(state is CallState.VERIFIED for state in driver.calls.values())
    restored = world if _undo(plan, driver) is DeltaState.APPLIED else None
    assert restored is not None
    world.next_id = 0
    assert plain(world) == plain(_world(before))


@QUIET
@given(programs(), st.sets(WORDS), st.sets(WORDS))
def test_what_was_there_before_a_create_of_the_same_name_outlives_its_undo(
    recording: Recording, entities: set[str], relations: set[str]
) -> None:
    """The store quietly keeps what it has, as the real one does."""
    world = world_of_two()
    for word, number in itertools.product(sorted(entities), (1, 2, 3)):
        world.entities[f"{word}{number}"] = {"name": f"{word}{number}", "entityType": "x", "observations": []}
    for word, number in itertools.product(sorted(relations), (1, 2, 3)):
        world.relations.append({"from": f"{word}{number}", "to": "x", "relationType": "y"})
    tickets, nodes, edges = copy.deepcopy(plain(world))
    plan, world = made_of(recording, world)
    driver = Driver(world)
    assert driver.run(machine(plan).run()) is DeltaState.APPLIED
    assert _undo(plan, driver) is DeltaState.APPLIED
    after = plain(world)
    if all(call.inverse is not None for call in plan.calls):
        assert after == [tickets, nodes, edges]
    assert all(after[1][name] == node for name, node in nodes.items())
    assert set(edges) <= set(after[2])


def _world(state: Any) -> World:
    tickets, files, entities, relations, mails = copy.deepcopy(state)
    return World(tickets=tickets, files=files, entities=entities, relations=relations, mails=mails)


def _undo(plan: Plan, driver: Driver) -> DeltaState:
    known = machine(plan, driver).progress
    if not known.made():
        return DeltaState.APPLIED
    now: dict[int, Any] = {}
    for number, read in reads_needed(known).items():
        try:
            result = driver.world.run(read.tool, known.filled(read.arguments))
        except Exception:
            now[number] = NOTHING
            continue
        for step in read.path:
            result = result[step]
        now[number] = result
    undo = build_undo(known, catalogue(), driver.after, now)
    assert undo.kept == ()
    return Driver(driver.world).run(machine(undo.plan).run())


@QUIET
@given(programs(), st.dictionaries(st.integers(1, 6), FAULTS, max_size=2))
def test_the_outcome_tells_the_truth_whatever_connectors_do(recording: Recording, faults: dict[int, str]) -> None:
    plan, world = made_of(recording)
    world.faults = faults
    before = plain(world)
    driver = Driver(world)
    state = driver.run(machine(plan).run())
    now = plain(world)
    match state:
        case DeltaState.ROLLED_BACK:
            assert now == before
            assert not [each for each in driver.calls.values() if each in MADE]
        case DeltaState.APPLIED:
            assert all(each in MADE for each in driver.stored(plan).values())
            if "normalises" not in faults.values() and "lies" not in faults.values():
                assert all(each is CallState.VERIFIED for each in driver.calls.values())
        case DeltaState.PARTIAL:
            assert [n for n, each in driver.calls.items() if each is CallState.COMPENSATION_FAILED or each in MADE]
        case DeltaState.UNKNOWN:
            assert CallState.UNKNOWN in driver.calls.values()
        case other:
            pytest.fail(f"{other} after {faults}")
    # Never two records for one create.
    for title in {ticket["title"] for ticket in world.tickets.values()}:
        wanted = sum(1 for call in plan.calls if call.tool == "create_ticket" and title in call.words)
        existing = sum(
            1 for key, ticket in world.tickets.items() if key not in {"T-1", "T-2"} and ticket["title"] == title
        )
        assert existing <= max(wanted, sum(call.tool == "create_ticket" for call in plan.calls))


@QUIET
@given(programs(), st.integers(0, 40))
def test_after_a_crash_anywhere_the_delta_reaches_an_honest_end(recording: Recording, crash_at: int) -> None:
    plan, world = made_of(recording)
    before = plain(world)
    driver = Driver(world, crash_at=crash_at)
    try:
        state = driver.run(machine(plan).run())
    except Crash:
        driver.crash_at = None
        if driver.state not in {DeltaState.APPLYING, DeltaState.ROLLING_BACK}:
            return
        state = driver.run(machine(plan, driver).resume(driver.state))
    if state in {DeltaState.ROLLED_BACK, DeltaState.PLANNED}:
        assert plain(world) == before
    elif state is DeltaState.APPLIED:
        assert all(each in MADE for each in driver.stored(plan).values())
    else:
        assert state in {DeltaState.UNKNOWN, DeltaState.PARTIAL}
        doubt = {CallState.UNKNOWN, CallState.COMPENSATION_FAILED, *MADE}
        assert doubt & set(driver.calls.values())
    assert not driver.in_doubt


@QUIET
@given(programs(), st.integers(0, 30))
def test_a_cancel_at_any_point_rolls_back_or_was_too_late(recording: Recording, at: int) -> None:
    plan, world = made_of(recording)
    before = plain(world)
    driver, steps = Driver(world), machine(plan)

    def between(step: int) -> None:
        if step == at:
            steps.turn_back("cancelled", unwanted=True)

    state = driver.run(steps.run(), between)
    if state is DeltaState.APPLIED:
        # The last step stores that; only a cancel after it is too late.
        assert at >= driver.steps - 1 or not plan.calls
        assert all(each in MADE for each in driver.stored(plan).values())
    else:
        assert state in {DeltaState.ROLLED_BACK, DeltaState.PLANNED}
        assert plain(world) == before


@QUIET
@given(programs())
def test_a_foreign_change_before_the_first_call_stops_everything(recording: Recording) -> None:
    plan, world = made_of(recording)
    written = {call.entity.key for call in plan.calls if call.entity and "status" in call.fields}
    if b'"T-1"' not in written:
        return
    world.tickets["T-1"]["status"] = "somebody else's"
    before = world.state()
    driver = Driver(world)
    assert driver.run(machine(plan).run()) is DeltaState.REFUSED
    assert world.state() == before
    assert driver.sent == []


def test_past_a_call_that_cannot_be_undone_a_cancel_finishes_forward() -> None:
    writes = (
        Write(1, "tickets", "send_mail", pack({"to": "a", "text": "b"}), seq=1),
        Write(2, "tickets", "update_ticket", pack({"id": "T-1", "status": "x"}), seq=2),
    )
    plan, world = build_plan(Recording(writes=writes), catalogue()), world_of_two()
    assert [call.reversibility for call in plan.calls] == [Reversibility.R3, Reversibility.R3]
    driver, steps = Driver(world), machine(plan)

    def between(_: int) -> None:
        if driver.sent:
            steps.turn_back("cancelled", unwanted=True)

    assert driver.run(steps.run(), between) is DeltaState.APPLIED


@QUIET
@given(programs(), st.integers(0, 30))
def test_a_deadline_lets_stand_what_was_made_whole(recording: Recording, at: int) -> None:
    plan, world = made_of(recording)
    before = plain(world)
    driver, steps = Driver(world), machine(plan)

    def between(step: int) -> None:
        if step == at:
            steps.turn_back("the deadline passed", unwanted=False)

    state = driver.run(steps.run(), between)
    if len(driver.sent) == len(plan.calls) and state is not DeltaState.PLANNED:
        assert state is DeltaState.APPLIED
    else:
        assert state in {DeltaState.ROLLED_BACK, DeltaState.PLANNED}
        assert plain(world) == before


def test_every_state_of_both_tables_is_reachable() -> None:
    for table, start in ((DELTA, DeltaState.PLANNED), (CALL, CallState.PLANNED)):
        # A program that failed begins and ends as such, without a plan.
        seen, open_ = set(), [start, *([DeltaState.FAILED] if table is DELTA else [])]
        while open_:
            state = open_.pop()
            if state not in seen:
                seen.add(state)
                open_ += table[state]  # type: ignore[index]
        assert seen == set(table)

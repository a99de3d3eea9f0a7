"""Programs without a plan: a repeat waits for one that runs, and for none that nobody can end any more."""

from __future__ import annotations

import math

import trio

from delta_actors.journal.planning import Planning, Program, fingerprint
from delta_protocol.changes.ids import new_delta_id
from delta_protocol.wire.journal import Begin
from delta_protocol.wire.message import Principal

ADA = Principal("token:ada", "token")
BEGIN = Begin(conversation="c", code="return 1", options="{}", catalogue=1, frozen_time=0, seed=1)
KEY = fingerprint(BEGIN, ADA)


def begun(planning: Planning, *, deadline: float = math.inf) -> Program:
    return planning.begin(new_delta_id(), BEGIN, ADA, 0.0, deadline=deadline, lost=trio.Event())


async def test_a_program_that_runs_is_found_by_its_repeat() -> None:
    planning = Planning()
    program = begun(planning)
    assert planning.running(KEY) is program


async def test_a_program_whose_transport_died_is_not_waited_for() -> None:
    planning = Planning()
    program = begun(planning)
    program.lost.set()
    assert planning.running(KEY) is None
    assert program.ended.is_set()
    assert len(planning) == 0


async def test_a_program_whose_client_stopped_waiting_is_not_waited_for() -> None:
    planning = Planning()
    begun(planning, deadline=trio.current_time() - 1)
    assert planning.running(KEY) is None


async def test_a_program_that_is_being_ended_is_waited_for_although_its_transport_died() -> None:
    planning = Planning()
    program = begun(planning)
    assert await planning.take(program.id, ADA) is program
    program.lost.set()
    assert planning.running(KEY) is program

"""kill -9 at every point where something becomes durable or is sent: the next journal tells the truth."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from delta_protocol.changes.model import CallState, DeltaState
from delta_protocol.changes.states import MOVING
from tests.journal.stand import standing
from tests.journal.world import TICKET, World

ROOT = Path(__file__).parents[2]
POINTS = 16
"""Two points for each of: to applying, intent, ack (per call), applied; two for each of the two writes."""


@pytest.mark.parametrize("at", range(POINTS + 1))
async def test_after_kill_9_the_delta_reaches_an_honest_end(tmp_path: Path, at: int) -> None:
    child = await trio.run_process(
        [sys.executable, "-m", "tests.journal.dying", str(tmp_path), str(at)],
        cwd=ROOT,
        check=False,
        stderr=subprocess.STDOUT,
        capture_stdout=True,
    )
    delta = (tmp_path / "delta").read_text()
    kept, next_id, names = json.loads((tmp_path / "world.json").read_text())
    world = World(tickets=kept, next_id=next_id)
    if at == POINTS:
        assert child.returncode == 0, child.stdout
        assert names == ["update_ticket", "add_comment"]
    else:
        assert child.returncode == -signal.SIGKILL, child.stdout
    async with standing(tmp_path, world) as stand:
        with trio.fail_after(30):
            while (report := await stand.get(delta)).state in MOVING:
                await trio.sleep(0.05)
        states = {call.state for call in report.calls}
        if report.state is DeltaState.APPLIED:
            assert world.tickets["T-1"]["status"] == "closed"
            assert [each["body"] for each in world.tickets["T-1"]["comments"]] == ["hm", "Closed: fixed in 2.3"]
            assert states == {CallState.VERIFIED}
        else:
            assert report.state in {DeltaState.PLANNED, DeltaState.ROLLED_BACK}
            assert world.tickets == {"T-1": TICKET}
        if report.state is DeltaState.PLANNED:
            # Nothing had been sent: the plan is still good.
            assert (await stand.apply(delta)).state is DeltaState.APPLIED

"""The main job from the shell, on embedded defaults: plan, apply, read back, undo; and what scripts may rely on."""

from __future__ import annotations

import json

from tests.stack.harness import TICKET_TASK, Stack

READ = 'const t = await tickets.ticket.get("T-1"); return [t.status, t.labels, t.comments.length];'


def test_the_ticket_task_is_two_calls_read_back_and_can_be_undone(stack: Stack) -> None:
    assert stack.run(READ)["returned"] == ["open", ["bug"], 2]
    answer = stack.run(TICKET_TASK)
    assert (answer["exit"], answer["returned"]) == (0, "Login broken")
    delta = answer["delta"]
    assert delta["id"].startswith("d_")
    assert (delta["state"], delta["calls"]) == ("applied", 2)
    assert delta["read_back"]["differs"] == 0
    assert delta["read_back"]["unverifiable"] == 0
    assert delta["read_back"]["verified"] >= 1
    assert delta["undo"] == {"possible": 2, "of": 2}
    assert stack.run(READ)["returned"] == ["closed", ["bug", "late"], 3]

    undone = stack.undo(delta["id"])
    assert undone["exit"] == 0, undone
    assert stack.run(READ)["returned"] == ["open", ["bug"], 2]


def test_a_delta_is_undone_once(stack: Stack) -> None:
    delta = stack.run(TICKET_TASK)["delta"]["id"]
    assert stack.undo(delta)["exit"] == 0
    again = stack.cli("undo", delta)
    assert again.returncode == 2
    assert "undone" in again.stderr + again.stdout


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(stack: Stack) -> None:
    answer = stack.run(TICKET_TASK, "--dry-run")
    assert (answer["exit"], answer["delta"]["calls"]) == (0, 2)
    assert answer["delta"]["state"] == "waiting", "it can be applied later"
    assert stack.run(READ)["returned"] == ["open", ["bug"], 2]


def test_a_reading_program_plans_nothing(stack: Stack) -> None:
    answer = stack.run("return 1 + 1")
    assert (answer["exit"], answer["returned"]) == (0, 2)
    assert "delta" not in answer


def test_a_failing_program_names_line_and_column_and_changes_nothing(stack: Stack) -> None:
    done = stack.cli("run", "-", given='const t = await tickets.ticket.get("T-1");\nt.status = "closed";\nnull.boom;')
    assert done.returncode == 1
    assert "3:" in done.stderr or "line 3" in done.stderr, done.stderr
    assert stack.run(READ)["returned"] == ["open", ["bug"], 2]


def test_an_integer_of_64_bits_comes_back_exactly(stack: Stack) -> None:
    assert str(stack.run("return 9223372036854775807n")["returned"]) == "9223372036854775807"


def test_the_journal_lists_what_was_done(stack: Stack) -> None:
    delta = stack.run(TICKET_TASK)["delta"]
    listed = stack.cli("journal", "--json")
    assert listed.returncode == 0, listed.stderr
    (row,) = [each for each in json.loads(listed.stdout)["deltas"] if each["id"] == delta["id"]]
    assert {key: row[key] for key in delta} == delta
    assert row["read_back"]["verified"] == 2


def test_the_status_names_every_actor_with_its_process(stack: Stack) -> None:
    actors = {each["name"]: each for each in stack.status()["actors"]}
    assert {"transport", "registry", "sandbox", "journal"} <= actors.keys()
    for each in actors.values():
        assert {"name", "pid", "state", "restarts"} <= each.keys()


def test_the_stack_ends_cleanly_on_a_signal(stack: Stack) -> None:
    assert stack.stop() == 0


def test_the_stack_ends_cleanly_by_command(stack: Stack) -> None:
    assert stack.cli("down").returncode == 0
    assert stack.process is not None
    assert stack.process.wait(20) == 0

"""The command line on a real stack, as a person and as a script would use it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack.harness import TICKET_TASK, Stack, running

pytestmark = pytest.mark.xdist_group("commands")

DELETING = 'await tickets.ticket.delete("T-2")'


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("cli")) as stack:
        yield stack


def answer_on_a_terminal(stack: Stack, words: str, *command: str) -> tuple[int, str]:
    """Run a command with a controlling terminal, type `words` once it asks, and return its code and what it wrote."""
    pid, terminal = pty.fork()
    if pid == 0:
        line = stack.command(*command)
        os.chdir(stack.home)
        os.execvpe(line[0], line, dict(stack.env))
    shown = b""
    until = time.monotonic() + 30
    asked = False
    while time.monotonic() < until:
        readable, _, _ = select.select([terminal], [], [], 1.0)
        if readable:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        if b"[y/N]" in shown and not asked:
            asked = True
            os.write(terminal, words.encode() + b"\n")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def tokens(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    program, *flags = stack.command("token")
    line = [program, "token", arguments[0], *flags[1:], *arguments[1:]]
    return subprocess.run(line, env=stack.env, capture_output=True, text=True, check=False, timeout=60)


def waiting(stack: Stack, code: str = DELETING) -> str:
    answer = stack.run(f"{code} // {time.monotonic_ns()}")
    assert (answer["exit"], answer["delta"]["state"]) == (4, "waiting")
    return str(answer["delta"]["id"])


def test_a_person_approves_on_the_terminal_and_it_is_applied(stack: Stack) -> None:
    code, shown = answer_on_a_terminal(stack, "y", "approve", waiting(stack))
    assert code == 0, shown
    assert "T-2" in shown
    assert "Applied" in shown


def test_whoever_does_not_say_yes_has_not_approved(stack: Stack) -> None:
    delta = waiting(stack, 'await tickets.ticket.delete("T-1")')
    code, shown = answer_on_a_terminal(stack, "", "approve", delta)
    assert code == 2, shown
    assert stack.cli("journal", "--json", delta).stdout.count('"waiting"') >= 1


def test_nobody_approves_without_a_terminal(stack: Stack) -> None:
    delta = waiting(stack, 'await tickets.ticket.delete("T-1")')
    done = subprocess.run(
        stack.command("approve", delta),
        env=stack.env,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 2
    assert "terminal" in done.stderr
    assert stack.cli("approve", "--yes", delta).returncode == 2


def test_a_declined_delta_cannot_be_approved_any_more(stack: Stack) -> None:
    delta = waiting(stack, 'await tickets.ticket.delete("T-1")')
    done = stack.cli("decline", "--json", "--reason", "not today", delta)
    assert json.loads(done.stdout)["delta"]["state"] == "declined"
    code, shown = answer_on_a_terminal(stack, "y", "approve", delta)
    assert code == 2
    assert "not today" in shown
    assert "[y/N]" not in shown


def test_an_undo_that_leaves_something_alone_says_what_and_how_to_force_it(stack: Stack) -> None:
    change = 'const t = await tickets.ticket.get("T-5"); t.status = "closed"; t.title = "Changed";'
    applied = stack.run(change)["delta"]["id"]
    stack.run('const t = await tickets.ticket.get("T-5"); t.status = "in_progress";')
    undone = stack.cli("undo", applied)
    assert undone.returncode == 3
    assert f"Partly undone {applied}" in undone.stdout
    assert "--force T-5.status" in undone.stderr


def test_a_change_that_met_a_conflict_is_planned_again_on_what_is_there_now(stack: Stack) -> None:
    program = 'const t = await tickets.ticket.get("T-3");\nt.title = t.title + "!";'
    first = stack.run(program, "--dry-run")["delta"]["id"]
    assert stack.run('const t = await tickets.ticket.get("T-3");\nt.title = "Other";')["exit"] == 0
    code, shown = answer_on_a_terminal(stack, "y", "approve", first)
    assert code == 2, shown
    assert f" {first}" in shown.split("replan")[1]
    assert stack.cli("replan", first).returncode == 0
    assert stack.run('return (await tickets.ticket.get("T-3")).title')["returned"] == "Other!"


def test_a_program_whose_sandbox_is_killed_changed_nothing_and_can_be_run_again(stack: Stack) -> None:
    # Longer than two heartbeats, which is how often the status hears of a running program.
    program = 'const t = await tickets.ticket.get("T-4");\nawait sleep(11000);\nt.title = "Late";'
    sandbox = stack.pid("sandbox")
    line = stack.command("run", "-")
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=stack.home, env=stack.env
    ) as running_program:
        assert running_program.stdin is not None
        running_program.stdin.write(program)
        running_program.stdin.close()
        stack.wait(lambda status: any(each["name"] == "sandbox" and each["in_flight"] for each in status["actors"]))
        os.kill(sandbox, signal.SIGKILL)
        assert running_program.stderr is not None
        said = running_program.stderr.read()
    assert running_program.returncode == 1
    assert "nothing was changed, run the same program again" in said
    assert stack.run(program)["delta"]["state"] == "applied"


def test_undo_for_scripts_has_the_shape_of_run(stack: Stack) -> None:
    applied = stack.run(TICKET_TASK)
    undone = stack.undo(applied["delta"]["id"])
    assert undone["exit"] == 0
    assert undone["delta"].keys() == {"id", "state", "calls", "read_back", "undo"}
    assert undone["delta"]["id"] != applied["delta"]["id"]


def test_a_refused_program_says_why_to_scripts_too(stack: Stack) -> None:
    answer = stack.run("  ")
    assert answer["exit"] != 0
    assert "code is empty" in answer["error"]["message"]


def test_a_token_is_shown_once_listed_by_name_and_revoked(stack: Stack) -> None:
    token = json.loads(tokens(stack, "add", "--json", "laptop").stdout)["token"]
    listed = tokens(stack, "list", "--json").stdout
    assert "laptop" in listed
    assert token not in listed
    assert tokens(stack, "revoke", "laptop").returncode == 0
    assert tokens(stack, "revoke", "laptop").returncode == 2


def test_status_names_connectors_for_people_and_scripts(stack: Stack) -> None:
    assert [each["name"] for each in stack.status()["connectors"]] == ["tickets"]
    assert "tickets" in stack.cli("status").stdout


def test_an_unknown_delta_is_named_with_what_there_is(stack: Stack) -> None:
    done = stack.cli("undo", "--json", "d_nosuchdelta2")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "not_found"


@pytest.mark.parametrize("arguments", [["undo"], ["nonsense"], ["up", "--prot", "1"], ["run", "/no/such/file"], []])
def test_a_wrong_command_line_ends_with_64(stack: Stack, arguments: list[str]) -> None:
    done = subprocess.run(
        [stack.command("up")[0], *arguments], env=stack.env, capture_output=True, text=True, cwd=stack.home, check=False
    )
    assert done.returncode == 64
    assert done.stderr


def test_without_a_stack_commands_say_how_to_start_one(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    for command in (["status"], ["journal"], ["undo", "d_x"]):
        done = stack.cli(*command)
        assert done.returncode == 2
        assert "delta-supervisor up" in done.stderr
    assert stack.cli("down").returncode == 0


def test_run_starts_a_stack_for_one_program_and_ends_it(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    answer = stack.run('const t = await tickets.ticket.get("T-1"); return t.title;', "--set", "http.port=0")
    assert (answer["exit"], answer["returned"]) == (0, "Login broken")
    until = time.monotonic() + 20
    while stack.status_or_none() is not None:
        assert time.monotonic() < until
        time.sleep(0.2)


def check(tmp_path: Path, text: str) -> tuple[int, dict[str, Any], str]:
    stack = Stack(tmp_path, f"version = 1\n{text}")
    done = stack.cli("check", "--json")
    return done.returncode, json.loads(done.stdout), done.stderr


def test_check_prints_every_value_with_its_origin(tmp_path: Path) -> None:
    code, printed, _ = check(tmp_path, f'[limits]\nworkers = 9\n[connectors.a]\ncommand = "{sys.executable}"')
    values = {each["name"]: each for each in printed["values"]}
    assert code == 0
    assert values["limits.workers"]["origin"].endswith("delta.toml")
    assert values["http.port"]["origin"] == "--port"
    assert values["http.path"] == {"name": "http.path", "value": "/mcp", "origin": "default"}
    assert values["state_dir"]["origin"] == "--state-dir"


def test_check_shows_people_what_was_set_and_the_defaults_only_when_asked(tmp_path: Path) -> None:
    stack = Stack(tmp_path, 'version = 1\n[limits]\nworkers = 9\n[connectors.a]\ncommand = "nosuchprogram"')
    short, long = stack.cli("check"), stack.cli("check", "--all")
    assert "limits.workers" in short.stdout
    assert "http.path" not in short.stdout
    assert "--all shows them" in short.stdout
    assert "connector a cannot start" in short.stderr
    assert "http.path" in long.stdout


def test_check_ends_with_78_for_a_connector_that_cannot_start(tmp_path: Path) -> None:
    code, printed, _ = check(tmp_path, '[connectors.a]\ncommand = "nosuchprogram"')
    assert code == 78
    assert "nosuchprogram" in printed["faults"]["a"]


def test_check_ends_with_78_for_a_mistake_and_says_where(tmp_path: Path) -> None:
    code, printed, errors = check(tmp_path, "[htpp]\nport = 1")
    assert code == 78
    assert printed["error"]["detail"]["path"] == "htpp"
    assert "did you mean http?" in errors

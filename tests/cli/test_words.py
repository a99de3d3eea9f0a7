"""What the command line prints: nothing in it moves or hides anything, and commands to type mean the same stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_protocol.catalogue.model import ConnectorState
from delta_protocol.wire.registry import ServiceStatus, state_word
from delta_supervisor.cli.options import command_line
from delta_supervisor.cli.output import print_progress, print_table, print_text
from delta_supervisor.cli.unseen import spelled_out
from delta_supervisor.load import Flags


@pytest.mark.parametrize("text", ["plain\n\ttext", "read back ✓ · 31 ms", "naïve 日本語", "\u00a0wide", "👩\u200d🔬"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert spelled_out(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Kb", "a\\u001b[2Kb"),
        ("over\rwritten", "over\\u000dwritten"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("c1\x9b", "c1\\u009b"),
    ],
)
def test_what_would_move_or_hide_text_is_spelled_out(text: str, shown: str) -> None:
    assert spelled_out(text) == shown


def test_all_that_is_printed_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("a\x1b[1A")
    print_progress("b\x1b[1A")
    print_table(("server",), [("c\x1b[1A",)])
    printed = capsys.readouterr()
    assert "\x1b[1A" not in printed.out + printed.err
    assert printed.out.count("\\u001b[1A") == 2


def test_a_command_to_type_names_the_stack_that_was_meant() -> None:
    assert command_line(Flags(), "status") == "delta-supervisor status"
    assert command_line(Flags(state_dir=Path("my state")), "status") == "delta-supervisor status --state-dir 'my state'"


def test_a_connector_that_nothing_has_begun_is_idle_for_people() -> None:
    assert state_word(ServiceStatus("a", ConnectorState.STARTING, begun=False)) == "idle"
    assert state_word(ServiceStatus("a", ConnectorState.STARTING)) == "starting"
    assert state_word(ServiceStatus("a", ConnectorState.FAILED, begun=False)) == "failed"

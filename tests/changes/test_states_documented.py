"""The pictures in the documentation are those of the tables that run."""

from __future__ import annotations

from pathlib import Path

from delta_protocol.changes.states import CALL, DELTA, diagram


def test_the_documentation_shows_the_state_tables() -> None:
    text = (Path(__file__).parents[2] / "docs" / "changes.md").read_text()
    assert diagram(DELTA) in text
    assert diagram(CALL) in text

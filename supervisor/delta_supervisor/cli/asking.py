"""Asks the person at the terminal, whom nothing else can answer for."""

from __future__ import annotations

from delta_protocol.config import StackConfig
from delta_protocol.errors import Refused
from delta_supervisor.cli.unseen import spelled_out


def check_unasked(config: StackConfig) -> None:
    """Raise `Refused` where `--yes` is not allowed."""
    if not config.auth.approve_without_terminal:
        raise Refused("--yes needs `[auth] approve_without_terminal = true` in the configuration")


def agreed(card: str, question: str) -> bool:
    """Show `card` and ask on the controlling terminal, which a pipe or a tool cannot answer for the person.

    Raises `Refused` where there is none.
    """
    try:
        # Two files: a terminal cannot be sought, which one for both directions would need.
        with open("/dev/tty", "w", encoding="utf-8") as shown, open("/dev/tty", encoding="utf-8") as typed:
            shown.write(f"{spelled_out(card)}\n\n{question} [y/N] ")
            shown.flush()
            return typed.readline().strip().lower() in ("y", "yes")
    except OSError:
        raise Refused(
            "there is no terminal to ask on; answer from a terminal, or allow `--yes` with "
            "`[auth] approve_without_terminal = true`"
        ) from None

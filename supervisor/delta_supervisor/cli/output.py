"""What a command prints: one JSON object for scripts, or words for people. rich is imported only for the latter."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from delta_protocol.errors import DeltaError
from delta_supervisor.cli.unseen import spelled_out


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print `value` as one line of JSON; integers stay exact."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Print text to stdout; what cannot be seen in it is spelled out."""
    text = spelled_out(text)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def print_progress(line: str) -> None:
    """Print a line about what goes on, spelled out alike; stderr, so that stdout stays the answer."""
    sys.stderr.write(f"{spelled_out(line)}\n")
    sys.stderr.flush()


def print_error(error: DeltaError, *, as_json: bool) -> None:
    """Print an error: words on stderr, and with `as_json` the typed form on stdout."""
    print_progress(f"delta-supervisor: {error.message}")
    if as_json:
        print_json({"error": {"code": error.code, "message": error.message, "detail": error.detail}})


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, fitted to the terminal where there is one."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(spelled_out, row))
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160).print(table)

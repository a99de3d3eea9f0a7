"""`run`'s way to a stack: the running one, or one that lives for this program only."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from delta_protocol.errors import DeltaError
from delta_supervisor.cli.options import arguments_of
from delta_supervisor.cli.program import LineClient, run_program
from delta_supervisor.load import Flags, load
from delta_supervisor.relay.join import connect, join

_MARGIN = 30.0
"""Seconds beyond the stack's own deadlines until the command gives up."""


def run_once(flags: Flags, code: str, *, dry_run: bool, again: bool = False) -> tuple[dict[str, Any], str, int]:
    """Run `code`, which waits in the stack for the connectors that it names; see `program.run_program`.

    Raises `DeltaError`.
    """
    loaded = load(flags, os.environ, Path.cwd())
    membership = join(loaded, arguments_of(flags))
    try:
        limits = loaded.config.limits
        client = LineClient(connect(loaded.state_dir), limits.request_deadline + limits.settle + _MARGIN)
        try:
            client.open()
            return run_program(client, code, dry_run=dry_run, again=again)
        finally:
            client.close()
    finally:
        if membership.started:
            with suppress(DeltaError):
                membership.client.down(if_unused=True)
        membership.client.close()

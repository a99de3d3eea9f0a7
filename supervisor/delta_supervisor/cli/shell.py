"""`run`'s way to a stack: the running one, or one that lives for this program only."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from delta_protocol.catalogue.model import ConnectorState
from delta_protocol.errors import DeltaError
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import Services, StartConnectors
from delta_supervisor.cli.operator import ask
from delta_supervisor.cli.options import arguments_of
from delta_supervisor.cli.program import LineClient, run_program
from delta_supervisor.load import Flags, load
from delta_supervisor.relay.join import connect, join

_MARGIN = 30.0
"""Seconds beyond the stack's own deadlines until the command gives up."""
_CONNECTORS_TIMEOUT = 30.0
_POLL = 0.2


def run_once(flags: Flags, code: str, *, dry_run: bool) -> tuple[dict[str, Any], str, int]:
    """Run `code` once its connectors had a chance to start; see `program.run_program`. Raises `DeltaError`."""
    loaded = load(flags, os.environ, Path.cwd())
    membership = join(loaded, arguments_of(flags))
    try:
        limits = loaded.config.limits
        client = LineClient(connect(loaded.state_dir), limits.request_deadline + limits.settle + _MARGIN)
        try:
            client.open()
            _wait_for_connectors(loaded.state_dir)
            return run_program(client, code, dry_run=dry_run)
        finally:
            client.close()
    finally:
        if membership.started:
            with suppress(DeltaError):
                membership.client.down(if_unused=True)
        membership.client.close()


def _wait_for_connectors(state_dir: Path) -> None:
    """A program names its connectors: give those that are just starting time to say what they offer."""

    async def work(registry: Any) -> None:  # noqa: ANN401 - a Ref
        import trio

        await registry.tell(StartConnectors())
        until = time.monotonic() + _CONNECTORS_TIMEOUT
        while time.monotonic() < until:
            services = await registry.ask(Services())
            if all(each.state is not ConnectorState.STARTING for each in services):
                return
            await trio.sleep(_POLL)

    with suppress(DeltaError):
        ask(state_dir, Role.REGISTRY, work, timeout=_CONNECTORS_TIMEOUT)

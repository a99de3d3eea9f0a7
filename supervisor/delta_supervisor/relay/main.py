"""The entry of `delta-supervisor stdio`."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from delta_protocol.errors import DeltaError
from delta_supervisor.cli.options import arguments_of, exit_code
from delta_supervisor.load import Flags, load
from delta_supervisor.relay.join import Membership, connect, join
from delta_supervisor.relay.pump import Pump


def relay(flags: Flags) -> int:
    """Relay this process's stdin and stdout until stdin ends; returns the exit code. Diagnostics go to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    membership: Membership | None = None

    def enter() -> socket.socket:
        nonlocal membership
        if membership is not None:
            membership.client.close()
        loaded = load(flags, os.environ, Path.cwd())
        membership = join(loaded, arguments_of(flags))
        return connect(loaded.state_dir)

    try:
        connection = enter()
        state_dir = load(flags, os.environ, Path.cwd()).state_dir
    except (DeltaError, OSError) as error:
        sys.stderr.write(f"delta-supervisor: {error}\n")
        return exit_code(error)
    Pump(sys.stdin.buffer, sys.stdout.buffer, lambda: connect(state_dir), enter).run(connection)
    return 0

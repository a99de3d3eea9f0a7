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


class _Relay:
    """One client's way to its stack. The configuration is read again whenever a stack is to be started or joined."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._state_dir = Path()
        self._membership: Membership | None = None

    def enter(self) -> socket.socket:
        """Start or join the stack and return a session's connection. Raises `DeltaError`, `OSError`."""
        if self._membership is not None:
            self._membership.client.close()
        loaded = load(self._flags, os.environ, Path.cwd())
        self._state_dir = loaded.state_dir
        self._membership = join(loaded, arguments_of(self._flags))
        return self.connect()

    def connect(self) -> socket.socket:
        """Return another connection to the same stack. Raises `OSError` when it has ended."""
        return connect(self._state_dir)


def relay(flags: Flags) -> int:
    """Relay this process's stdin and stdout until stdin ends; returns the exit code. Diagnostics go to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    way = _Relay(flags)
    try:
        connection = way.enter()
    except (DeltaError, OSError) as error:
        sys.stderr.write(f"delta-supervisor: {error}\n")
        return exit_code(error)
    Pump(sys.stdin.buffer, sys.stdout.buffer, way.connect, way.enter).run(connection)
    return 0

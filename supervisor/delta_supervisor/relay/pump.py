"""Moves lines between a client's standard streams and the stack, and survives restarts of either part of the stack.

Two threads, because neither direction may wait for the other: a client that does not read must not stop what it writes.
When the whole stack has ended it is started again by the client's next request, not before: who stopped it meant it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import BinaryIO

from delta_protocol.errors import DeltaError
from delta_supervisor.relay.session import Session, is_request

SETTLE_TIMEOUT = 60.0
"""Seconds that a request waits for a stack that comes back, and that a closed client's last answers may take."""

Connect = Callable[[], socket.socket]


class Pump:
    """Relays one client. `connect` opens a session at a running stack (`OSError` if there is none); `rejoin` starts or
    joins one first (`DeltaError` if that fails)."""

    def __init__(self, client_in: BinaryIO, client_out: BinaryIO, connect: Connect, rejoin: Connect) -> None:
        self._in = client_in
        self._out = client_out
        self._connect = connect
        self._rejoin = rejoin
        self._session = Session()
        self._state = threading.Condition()
        self._writing = threading.Lock()
        self._connection: socket.socket | None = None
        self._gone = False
        """No stack, and nobody is starting one."""
        self._wanted = False
        """A request waits for a stack to be started."""
        self._finished = False
        self._refusals = 0
        self._refusal = ("actor_unavailable", "the stack did not come back in time")

    def run(self, connection: socket.socket) -> None:
        """Relay until the client closes its end and its last requests are answered."""
        self._publish(connection)
        threading.Thread(target=self._from_server, args=(connection,), daemon=True).start()
        for line in iter(self._in.readline, b""):
            if line.strip():
                self._to_server(line if line.endswith(b"\n") else line + b"\n")
        with self._state:
            self._finished = True
            self._state.notify_all()
            self._state.wait_for(lambda: self._session.idle or self._connection is None, timeout=SETTLE_TIMEOUT)
            current = self._connection
        if current is not None:
            with suppress(OSError):
                current.shutdown(socket.SHUT_RDWR)

    def _to_server(self, line: bytes) -> None:
        with self._state:
            connection = self._settled(line)
            if connection is None:
                answer = self._session.drop(line, *self._refusal)
            else:
                answer = None
                if not self._session.from_client(line):
                    return
        if connection is not None:
            # When it breaks here the reader sees the same end, and tells the client what became of this request.
            with suppress(OSError):
                connection.sendall(line)
        elif answer is not None:
            self._to_client([answer])

    def _settled(self, line: bytes) -> socket.socket | None:
        """Return the connection once there is one; None when there will be none for this line."""
        if self._connection is None:
            if self._gone and not is_request(line):
                return None
            self._wanted = True
            self._state.notify_all()
            before = self._refusals
            self._state.wait_for(
                lambda: self._connection is not None or self._refusals != before, timeout=SETTLE_TIMEOUT
            )
        return self._connection

    def _to_client(self, lines: Iterable[bytes]) -> None:
        with self._writing:
            try:
                for line in lines:
                    self._out.write(line)
                self._out.flush()
            except (OSError, ValueError):
                # The client is gone. The main thread may be blocked in a read that never ends.
                os._exit(0)

    def _from_server(self, connection: socket.socket) -> None:
        while True:
            self._read(connection)
            connection.close()
            with self._state:
                self._connection = None
                lost = list(self._session.lost())
                self._state.notify_all()
            self._to_client(lost)
            again = self._reconnected()
            if again is None:
                return
            connection = again
            self._resume(connection)

    def _read(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                with self._state:
                    resuming = self._session.resuming
                    shown = self._session.from_server(line)
                    resumed = resuming and not self._session.resuming
                    initialized = self._session.resumed() if resumed else None
                if shown:
                    self._to_client([line])
                if initialized is not None:
                    connection.sendall(initialized)
                if resumed:
                    self._publish(connection)
                with self._state:
                    self._state.notify_all()

    def _reconnected(self) -> socket.socket | None:
        """Return a new connection; None when the client has closed its end meanwhile."""
        while True:
            with suppress(OSError):
                return self._connect()
            with self._state:
                self._gone = True
                self._state.wait_for(lambda: self._wanted or self._finished)
                if self._finished:
                    return None
                self._gone = self._wanted = False
            try:
                return self._rejoin()
            except (DeltaError, OSError) as error:
                code = error.code if isinstance(error, DeltaError) else "actor_unavailable"
                with self._state:
                    self._refusal = (code, str(error))
                    self._refusals += 1
                    self._state.notify_all()

    def _resume(self, connection: socket.socket) -> None:
        with self._state:
            lines = list(self._session.resume())
        with suppress(OSError):
            for line in lines:
                connection.sendall(line)
        if not self._session.resuming:
            self._publish(connection)

    def _publish(self, connection: socket.socket) -> None:
        """Let the client's lines go over `connection` from now on."""
        with self._state:
            self._connection = connection
            self._state.notify_all()

"""The stack's side of the control socket."""

from __future__ import annotations

import errno
import os
import socket
from typing import Protocol

import msgspec
import trio

from delta_actors.runtime.processes import peer_of
from delta_protocol.errors import DeltaError, Failure, Invalid, Refused
from delta_protocol.wire.control import Grant
from delta_supervisor.control.messages import (
    AdmitRequest,
    Admitted,
    Attached,
    AttachRequest,
    ControlFailed,
    ControlReply,
    ControlRequest,
    DownRequest,
    StackStatus,
    StatusRequest,
    Stopping,
)
from delta_supervisor.reap import is_descendant

MAX_REQUEST = 4 << 20
MAX_CONNECTIONS = 256
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
_RETRY_ACCEPT = 0.1
"""Seconds until another connection is tried after one could not be accepted."""


class Controlled(Protocol):
    """What the control socket needs of a stack."""

    def status(self) -> StackStatus:
        """Return the stack as it stands."""
        ...

    def stop(self) -> None:
        """Begin to stop in order."""
        ...

    @property
    def operator_grants(self) -> tuple[Grant, ...]:
        """What opens the operator's links."""
        ...

    def compare(self, fingerprints: dict[str, str]) -> tuple[str, ...]:
        """Return the names of the configured values that differ."""
        ...


class ControlServer:
    """Answers on a held listening socket until cancelled. `attached` counts the clients that keep the stack alive."""

    def __init__(self, listener: socket.socket, stack: Controlled) -> None:
        self._listener = trio.socket.from_stdlib_socket(listener)
        self._stack = stack
        self._limit = trio.CapacityLimiter(MAX_CONNECTIONS)
        self.attached = 0
        self.last_detached = trio.current_time()
        """On trio's clock; the start counts as one."""

    async def serve(self) -> None:
        """Accept and answer until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                if (connection := await self._accept()) is None:
                    continue
                try:
                    self._limit.acquire_on_behalf_of_nowait(connection)
                except trio.WouldBlock:
                    connection.close()
                    continue
                nursery.start_soon(self._connection, connection)

    async def _accept(self) -> trio.socket.SocketType | None:
        """Return the next connection, None where there is none: no peer may end the stack by opening many."""
        try:
            return (await self._listener.accept())[0]
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            await trio.sleep(_RETRY_ACCEPT)
            return None

    async def _connection(self, connection: trio.socket.SocketType) -> None:
        stream = trio.SocketStream(connection)
        try:
            async with stream:
                await self._session(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            self._limit.release_on_behalf_of(connection)

    async def _session(self, stream: trio.SocketStream) -> None:
        pid, uid = peer_of(stream.socket)
        attached = False
        buffer = bytearray()
        try:
            async for chunk in stream:
                buffer += chunk
                while (end := buffer.find(b"\n")) >= 0:
                    line = bytes(buffer[:end])
                    del buffer[: end + 1]
                    reply = self._answer(line, pid, uid)
                    if isinstance(reply, Attached) and not reply.differing and not attached:
                        attached = True
                        self.attached += 1
                    await stream.send_all(msgspec.json.encode(reply) + b"\n")
                    if isinstance(reply, Stopping) and reply.stops:
                        self._stack.stop()
                        # The end of this connection, when the process ends, says that it has stopped.
                        await trio.sleep_forever()
                if len(buffer) > MAX_REQUEST:
                    return
        finally:
            if attached:
                self.attached -= 1
                self.last_detached = trio.current_time()

    def _answer(self, line: bytes, pid: int, uid: int) -> ControlReply:
        try:
            if uid != os.geteuid():
                raise Refused("this stack belongs to another user")
            return self._handle(msgspec.json.decode(line, type=ControlRequest), pid)
        except (msgspec.MsgspecError, RecursionError) as error:
            return ControlFailed(Invalid(f"unknown control request: {error}").to_failure())
        except DeltaError as error:
            return ControlFailed(Failure(error.code, error.message, error.detail))

    def _handle(self, request: ControlRequest, pid: int) -> ControlReply:
        match request:
            case StatusRequest():
                return self._stack.status()
            case DownRequest(if_unused=if_unused):
                return Stopping(stops=not (if_unused and self.attached > 1))
            case AdmitRequest():
                if is_descendant(pid, os.getpid()):
                    raise Refused("a program that the stack itself started cannot act for its operator")
                return Admitted(self._stack.operator_grants)
            case AttachRequest(fingerprints=fingerprints):
                differing = self._stack.compare(fingerprints) if fingerprints is not None else ()
                return Attached(os.getpid(), differing)

"""The caller's side of the control socket: blocking, because the relay and the command line need no event loop."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from delta_protocol.errors import ActorUnavailable, ProtocolViolation, from_failure
from delta_supervisor.control.messages import (
    CONTROL_SOCKET,
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

ReplyT = TypeVar("ReplyT", StackStatus, Stopping, Admitted, Attached)
_MAX_REPLY = 16 << 20


class NoStack(ActorUnavailable):
    """No stack runs in this state directory."""


class ControlClient:
    """One connection; a context manager. Calls raise `DeltaError` when refused, `NoStack` when the stack is gone."""

    def __init__(self, runtime_dir: Path, *, timeout: float = 10.0) -> None:
        self._buffer = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(runtime_dir / CONTROL_SOCKET))
        except OSError:
            self._socket.close()
            raise NoStack("no stack is running here; start one with `delta-supervisor up`") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it the attachment."""
        self._socket.close()

    def status(self) -> StackStatus:
        """Ask how the stack is."""
        return self._call(StatusRequest(), StackStatus)

    def down(self, *, if_unused: bool = False, timeout: float = 60.0) -> bool:
        """Stop the stack and wait until it has; returns whether it was stopped."""
        stops = self._call(DownRequest(if_unused), Stopping).stops
        if stops:
            self._socket.settimeout(timeout)
            while self._read():
                continue
        return stops

    def admit(self) -> Admitted:
        """Ask for the operator's grants."""
        return self._call(AdmitRequest(), Admitted)

    def attach(self, fingerprints: dict[str, str] | None) -> Attached:
        """Become a client of the stack."""
        return self._call(AttachRequest(fingerprints), Attached)

    def _call(self, request: ControlRequest, kind: type[ReplyT]) -> ReplyT:
        try:
            self._socket.sendall(msgspec.json.encode(request) + b"\n")
        except OSError:
            raise NoStack("the stack went away; start it again with `delta-supervisor up`") from None
        while b"\n" not in self._buffer:
            chunk = self._read()
            if not chunk:
                raise NoStack("the stack went away; start it again with `delta-supervisor up`")
            self._buffer += chunk
            if len(self._buffer) > _MAX_REPLY:
                raise ProtocolViolation("the stack's answer is too long")
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply = msgspec.json.decode(line, type=ControlReply)
        if isinstance(reply, ControlFailed):
            raise from_failure(reply.failure)
        if not isinstance(reply, kind):
            raise ProtocolViolation(f"the stack answered with {type(reply).__name__}")
        return reply

    def _read(self) -> bytes:
        try:
            return self._socket.recv(64 << 10)
        except TimeoutError:
            raise ActorUnavailable("the stack does not answer; see `delta-supervisor status`") from None
        except OSError:
            return b""

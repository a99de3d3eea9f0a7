"""`run`: one program from the shell, as an MCP client of the running stack."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from delta_protocol.changes.model import DeltaState
from delta_protocol.errors import ActorUnavailable, DeltaError, ProtocolViolation
from delta_supervisor.cli.options import DONE, INTERNAL, PARTIAL, PROGRAM_ERROR, REFUSED, WAITING

PROTOCOL_VERSION = "2025-11-25"

_EXITS: Mapping[str, int] = {
    DeltaState.APPLIED: DONE,
    DeltaState.UNDONE: DONE,
    DeltaState.PLANNED: DONE,
    DeltaState.WAITING: WAITING,
    DeltaState.FAILED: PROGRAM_ERROR,
    DeltaState.REFUSED: REFUSED,
    DeltaState.DECLINED: REFUSED,
    DeltaState.EXPIRED: REFUSED,
    DeltaState.ROLLED_BACK: REFUSED,
}


def exit_of_state(state: str) -> int:
    """Return the exit code of a delta that ended in `state`; what is neither done nor untouched is partial."""
    return _EXITS.get(state, PARTIAL)


class LineClient:
    """One MCP session over the stack's relay socket, blocking, just enough for one program."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        connection.settimeout(timeout)
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._next = 0

    def close(self) -> None:
        """End the session."""
        self._lines.close()
        self._connection.close()

    def open(self) -> None:
        """Introduce ourselves."""
        self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "delta-supervisor run", "version": "1"},
            },
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask and return the result. Raises `DeltaError`; JSON-RPC errors keep their code in the detail."""
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message:
                self._refuse(message)
            elif message.get("id") == self._next:
                if "error" in message:
                    error = cast("dict[str, Any]", message["error"])
                    raise DeltaError(str(error.get("message")), rpc=error.get("code"), data=error.get("data"))
                return cast("dict[str, Any]", message.get("result", {}))

    def _refuse(self, message: dict[str, Any]) -> None:
        if "id" in message:
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
            if message["method"] == "ping":
                answer["result"] = {}
            else:
                answer["error"] = {"code": -32601, "message": "the command line cannot be asked"}
            self._send(answer)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.sendall(msgspec.json.encode(message) + b"\n")
        except OSError:
            raise _lost() from None

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError:
            raise _lost() from None
        if not line:
            raise _lost()
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ProtocolViolation(f"the stack answered with something else than JSON: {error}") from None


def _lost() -> ActorUnavailable:
    return ActorUnavailable("the stack went away during the program; `delta-supervisor journal` says what was done")


def run_program(
    client: LineClient, code: str, *, dry_run: bool, again: bool = False
) -> tuple[dict[str, Any], str, int]:
    """Run `code` and return the facts for scripts, the text for people, and the exit code."""
    asked = {name: True for name, wanted in (("dryRun", dry_run), ("again", again)) if wanted}
    arguments: dict[str, Any] = {"code": code, **asked}
    result = client.request("tools/call", {"name": "delta", "arguments": arguments})
    blocks = cast("list[dict[str, Any]]", result.get("content", []))
    text = "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")
    structured = result.get("structuredContent")
    facts = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {"returned": structured}
    failed = result.get("isError") is True
    delta = facts.get("delta")
    if isinstance(delta, dict):
        state = str(cast("dict[str, Any]", delta).get("state"))
        # A dry run that only waits to be applied did what was asked.
        return facts, text, DONE if dry_run and state == DeltaState.WAITING else exit_of_state(state)
    if not failed:
        return facts, text, DONE
    return facts if facts.get("error") else {**facts, "error": {"message": text}}, text, _exit_of_error(facts)


def _exit_of_error(facts: dict[str, Any]) -> int:
    error = facts.get("error")
    code = str(cast("dict[str, Any]", error).get("code", "program_failed")) if isinstance(error, dict) else ""
    if code in ("refused", "write_not_planned", "conflict"):
        return REFUSED
    if code in ("internal", "actor_crashed", "actor_unavailable", "overloaded", "deadline_exceeded"):
        return INTERNAL
    return PROGRAM_ERROR

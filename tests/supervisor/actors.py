"""Small actors for tests of what is around actors. What one does is told by files in its state directory."""

from __future__ import annotations

import os
import time
from typing import Any

import trio

from delta_actors.runtime.actor import Actor, Context, Handlers
from delta_protocol.errors import ActorUnavailable, DeltaError, Refused
from delta_protocol.wire.message import Role
from delta_supervisor.control.client import ControlClient

POLL = 0.02


class Quiet(Actor):
    """Serves nobody. Notes its end in `stopped`; files named `refuse-ROLE`, `fail-ROLE` and so on make it misbehave."""

    role = Role.RESULTS

    async def start(self, context: Context) -> tuple[str, ...]:
        self.context = context
        if self._told("refuse"):
            raise Refused("told to refuse")
        if self._told("fail"):
            raise ActorUnavailable("told to fail")
        return ()

    def handlers(self) -> Handlers:
        return Handlers()

    async def run(self) -> None:
        while True:
            await trio.sleep(POLL)
            if self._told("crash"):
                os._exit(3)
            if self._told("stuck"):
                time.sleep(600)

    async def stop(self) -> None:
        with (self.context.state_dir / "stopped").open("a") as file:
            file.write(f"{self.context.role}\n")

    def _told(self, what: str) -> bool:
        return (self.context.state_dir / f"{what}-{self.context.role}").exists()


class Talker(Quiet):
    """Answers every line of every connection to `mcp` with its process id and the line."""

    role = Role.TRANSPORT

    async def run(self) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self.context.sockets["mcp"].dup()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            await trio.serve_listeners(self._talk, [listener])

    async def _talk(self, stream: trio.SocketStream) -> None:
        buffer = b""
        async for chunk in stream:
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                answer = await trio.to_thread.run_sync(self._admitted) if line == b"admit" else line
                await stream.send_all(b"%d %b\n" % (os.getpid(), answer))

    def _admitted(self) -> bytes:
        """Ask for the operator's grants, as a program that the stack runs might."""
        try:
            with ControlClient(self.context.runtime_dir) as client:
                client.admit()
        except DeltaError as error:
            return error.code.encode()
        return b"admitted"

    def statistics(self) -> dict[str, Any]:
        return {"talks": True}

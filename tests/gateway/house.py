"""All actors of a stack as tasks of the test's process, with real links, a real connector process, and a client."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from delta_actors.auth import AuthActor
from delta_actors.registry import RegistryActor
from delta_actors.results import ResultsActor
from delta_actors.runtime import Actor, System, open_actors
from delta_actors.sandbox import SandboxActor
from delta_actors.transport import TransportActor
from delta_protocol.config import ConnectorConfig, StackConfig
from delta_protocol.supervision import Intensity
from delta_protocol.wire.message import Role

# Tests kill actors more often than the default puts up with; escalation has tests of its own.
PATIENT = Intensity(max_restarts=1000)
TICKET_PROGRAM = """\
const t = await tickets.ticket.get("T-1");
t.status = "closed";
t.labels.push("late");
t.comments.push({body: "Closed: fixed in 2.3"});
return t.title;
"""


def tickets(state_dir: Path, **changes: Any) -> ConnectorConfig:
    """The demo connector over a file of this test."""
    arguments = ("-m", "delta_actors.demo.tickets", "--db", str(state_dir / "tickets.db"))
    return ConnectorConfig(command=sys.executable, args=arguments, **{"reviewed": True, **changes})


def journal_actor() -> Actor:
    """The journal, imported late: most of the gateway's tests need none."""
    from delta_actors.journal import JournalActor

    return JournalActor()


EVERY_ACTOR: Mapping[str, Callable[[], Actor]] = {
    Role.AUTH: AuthActor,
    Role.RESULTS: ResultsActor,
    Role.REGISTRY: RegistryActor,
    Role.JOURNAL: journal_actor,
    Role.SANDBOX: SandboxActor,
    Role.TRANSPORT: TransportActor,
}


class House:
    """A running stack. `path` is the relays' socket, `url` the HTTP endpoint."""

    def __init__(self, system: System, path: Path, url: str) -> None:
        self.system = system
        self.path = path
        self.url = url

    @asynccontextmanager
    async def client(self, capabilities: dict[str, Any] | None = None) -> AsyncIterator[Client]:
        """A client of the relays' socket that has shaken hands."""
        stream = await trio.open_unix_socket(str(self.path))
        async with stream, trio.open_nursery() as nursery:
            client = Client(stream)
            nursery.start_soon(client.listen)
            info = {"name": "test", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": info}
            client.server = (await client.ask("initialize", params))["result"]
            await client.tell("notifications/initialized", {})
            yield client
            nursery.cancel_scope.cancel()


class Client:
    """A legacy MCP client in plain lines."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.server: dict[str, Any] = {}
        self.notifications: list[dict[str, Any]] = []
        self._stream = stream
        self._number = 0
        self.answers: dict[int, dict[str, Any]] = {}
        self._news = trio.Event()
        self._sending = trio.Lock()

    async def listen(self) -> None:
        buffer = b""
        async for chunk in self._stream:
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "id" in message:
                    self.answers[message["id"]] = message
                else:
                    self.notifications.append(message)
            self._news.set()
            self._news = trio.Event()

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        await self._send({"method": method, "params": params})

    async def begin(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        await self._send({"id": self._number, "method": method, "params": params})
        return self._number

    async def end(self, number: int) -> dict[str, Any]:
        with trio.fail_after(60):
            while number not in self.answers:
                await self._news.wait()
        return self.answers.pop(number)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.end(await self.begin(method, params))

    async def heard(self, method: str) -> None:
        with trio.fail_after(60):
            while not any(notification["method"] == method for notification in self.notifications):
                await self._news.wait()

    async def tools(self) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = (await self.ask("tools/list", {}))["result"]["tools"]
        return tools

    async def call(self, name: str, **arguments: Any) -> Answer:
        reply = await self.ask("tools/call", {"name": name, "arguments": arguments})
        assert "result" in reply, reply
        return Answer(reply["result"])

    async def call_with_busy(self, name: str, **arguments: Any) -> str | None:
        """Return the text of the answer, None where there is no room now."""
        reply = await self.ask("tools/call", {"name": name, "arguments": arguments})
        if reply.get("error", {}).get("message", "").startswith("busy"):
            return None
        return Answer(reply["result"]).text

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            await self._stream.send_all(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


class Answer:
    """A CallToolResult."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.raw = result
        self.text: str = "\n".join(block.get("text", "") for block in result["content"])
        self.structured: dict[str, Any] = result.get("structuredContent", {})
        self.is_error: bool = result.get("isError", False)


@asynccontextmanager
async def open_house(
    state_dir: Path, config: StackConfig, actors: Mapping[str, Callable[[], Actor]] = EVERY_ACTOR
) -> AsyncIterator[House]:
    """Run the actors; the sockets are this process's own."""
    path = state_dir / "mcp.sock"
    with socket.socket(socket.AF_UNIX) as relay, socket.socket() as http:
        relay.bind(str(path))
        relay.listen()
        http.bind(("127.0.0.1", 0))
        http.listen()
        http.setblocking(False)
        sockets: dict[str, dict[str, socket.socket]] = {Role.TRANSPORT: {"mcp": relay, "http": http}}
        try:
            async with open_actors(
                actors, config=config, state_dir=state_dir, sockets=sockets, intensity=PATIENT
            ) as system:
                yield House(system, path, system.addresses(Role.TRANSPORT)[0])
        finally:
            path.unlink()

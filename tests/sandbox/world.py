"""A registry with tickets in memory, and the sandbox under test, as actors of one process."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import trio

from delta_actors.runtime import Actor, Call, Context, Handlers, Ref, open_actors
from delta_actors.sandbox.actor import SandboxActor
from delta_protocol.catalogue.model import (
    ArgumentRule,
    Binding,
    Catalogue,
    Collection,
    Connector,
    ConnectorState,
    Effect,
    Elements,
    Mode,
    Tool,
)
from delta_protocol.config import LimitsConfig, ProgramLimits, StackConfig
from delta_protocol.wire.message import Item, Principal, Role
from delta_protocol.wire.registry import GetCatalogue, Outcome, ReadTool, ToolReply
from delta_protocol.wire.sandbox import ProgramOutcome, RunProgram

PRINCIPAL = Principal("tester", "loopback")
FROZEN = 1_700_000_000_000
SEED = 42
TICKET: dict[str, Any] = {
    "id": "T-1",
    "title": "x",
    "status": "open",
    "labels": ["a", "b"],
    "comments": [{"id": 1, "body": "one"}, {"id": 2, "body": "two"}, {"id": 3, "body": "three"}],
    "customer": {"name": "Al", "address": {"city": "Oslo"}},
    "n": 1,
}


def tool(name: str, effect: Effect, required: tuple[str, ...] = (), *optional: str, **more: Any) -> Tool:
    properties: dict[str, Any] = {key: {} for key in (*required, *optional)}
    schema = json.dumps({"type": "object", "properties": properties, "required": list(required)}).encode()
    return Tool(name, name.replace("-", "_"), f"About {name}.", schema, effect, "test", name, b"{}", **more)


FIELDS = ("title", "status", "labels", "assignee")
TICKETS = Connector(
    "tickets",
    ConnectorState.READY,
    Mode.AUTO,
    (
        tool("get_ticket", Effect.READ, ("id",)),
        tool("list_tickets", Effect.READ, (), "status", "label", "cursor"),
        tool("search_tickets", Effect.READ, ("query",)),
        tool("create_ticket", Effect.WRITE, ("title",), "status", "labels", "assignee", "n", "body"),
        tool("update_ticket", Effect.WRITE, ("id",), *FIELDS, "n", "customer", "x", "due", "missing", "backup"),
        tool("delete_ticket", Effect.WRITE, ("id",)),
        tool("add_comment", Effect.WRITE, ("id", "body")),
        tool("delete_comment", Effect.WRITE, ("id", "comment_id")),
        tool("count-tickets", Effect.READ),
        tool("fail", Effect.READ, (), "id"),
        tool("slow", Effect.READ, (), "id"),
        tool("echo", Effect.READ, (), "value"),
        tool("a", Effect.READ, (), "value"),
        tool("query", Effect.WRITE, ("sql",), rules=(ArgumentRule("sql", "(?i)^select", Effect.READ),)),
        tool("hidden", Effect.OFF),
        tool("broken", Effect.READ, fault="its schema is no schema"),
    ),
    (
        Collection(
            "ticket",
            "ticket",
            "id",
            get=Binding("get_ticket", "id"),
            list=Binding(
                "list_tickets", fields={"status": "status", "labels": "label"}, result=("tickets",), cursor="cursor"
            ),
            search=Binding("search_tickets", result=("tickets",)),
            create=Binding("create_ticket", fields={field: field for field in (*FIELDS, "n")}),
            update=Binding("update_ticket", "id", fields={field: field for field in (*FIELDS, "n", "customer", "x")}),
            delete=Binding("delete_ticket", "id"),
            elements=(
                Elements(
                    "comments",
                    "id",
                    add=Binding("add_comment", "id", fields={"body": "body"}),
                    remove=Binding("delete_comment", "id"),
                    remove_key="comment_id",
                ),
            ),
            fields=tuple(TICKET),
        ),
    ),
)
SERVER = Connector("my-server", ConnectorState.STARTING, Mode.ASK, detail="not listed yet")
CATALOGUE = Catalogue(7, (TICKETS, SERVER))

Answer = Callable[[ReadTool, Call], Awaitable[ToolReply]]


def ok(value: Any) -> ToolReply:
    text = msgspec.json.encode(value).decode()
    return ToolReply(Outcome.OK, json.dumps({"content": [{"type": "text", "text": text}]}).encode())


class FakeRegistry(Actor):
    """Answers reads from a dictionary; what it was asked stands in `asked`."""

    role: ClassVar[Role] = Role.REGISTRY

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.tickets: dict[str, dict[str, Any]] = {"T-1": TICKET}
        self.special: dict[str, Answer] = {}
        self.running = 0
        self.most = 0
        self.cancelled = trio.Event()
        self.pause = 0.0

    async def start(self, context: Context) -> tuple[str, ...]:
        return ()

    def handlers(self) -> Handlers:
        handlers = Handlers()
        handlers.ask(GetCatalogue, self._catalogue)
        handlers.ask(ReadTool, self._read)
        return handlers

    async def _catalogue(self, request: GetCatalogue, call: Call) -> Catalogue:
        return CATALOGUE

    async def _read(self, request: ReadTool, call: Call) -> ToolReply:
        arguments = json.loads(request.arguments)
        self.asked.append((request.tool, arguments))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.pause:
                await trio.sleep(self.pause)
            if request.tool in self.special:
                return await self.special[request.tool](request, call)
            return await self._answer(request.tool, arguments)
        except trio.Cancelled:
            self.cancelled.set()
            raise
        finally:
            self.running -= 1

    async def _answer(self, name: str, arguments: dict[str, Any]) -> ToolReply:
        if name == "get_ticket":
            found = self.tickets.get(arguments["id"])
            if found is None and not str(arguments["id"]).startswith("T-"):
                return ToolReply(Outcome.TOOL_ERROR, message=f"no ticket {arguments['id']}")
            return ok(found or {**TICKET, "id": arguments["id"]})
        if name in ("list_tickets", "search_tickets"):
            page = int(arguments.get("cursor", "0"))
            items = [{"id": f"T-{page * 2 + number}", "title": "listed", "status": "open"} for number in (1, 2)]
            return ok({"tickets": items, **({"next_cursor": str(page + 1)} if page < 2 else {})})
        if name == "fail":
            return ToolReply(Outcome.TOOL_ERROR, message="it broke")
        if name == "slow":
            await trio.sleep_forever()
        return ok({"echo": arguments.get("value")})


class World:
    """`run(code)` runs a program as transport would."""

    def __init__(self, sandbox: SandboxActor, registry: FakeRegistry, ref: Ref) -> None:
        self.sandbox = sandbox
        self.registry = registry
        self.ref = ref

    async def run(
        self,
        code: str,
        *,
        timeout: float = 30.0,
        limits: ProgramLimits | None = None,
        listener: Callable[[Item], Awaitable[Item | None]] | None = None,
        seed: int = SEED,
    ) -> ProgramOutcome:
        request = RunProgram(code, CATALOGUE.number, FROZEN, seed, limits or ProgramLimits())
        with trio.fail_after(timeout):
            return await self.ref.ask(request, listener=listener, principal=PRINCIPAL)

    async def value(self, code: str, **options: Any) -> Any:
        """Return the decoded value of a program that must succeed."""
        outcome = await self.run(code, **options)
        assert outcome.error is None, outcome.error
        return json.loads(outcome.returned.json)

    async def error(self, code: str, **options: Any) -> Any:
        """Return the error of a program that must fail."""
        outcome = await self.run(code, **options)
        assert outcome.error is not None, outcome.returned
        return outcome.error


STATE = Path(os.environ.get("XDG_CACHE_HOME", "/tmp")) / f"delta-tests-{os.getuid()}"


@asynccontextmanager
async def open_world(state: Path = STATE, **limits: Any) -> AsyncIterator[World]:
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    sandboxes: list[SandboxActor] = []
    registries: list[FakeRegistry] = []

    def sandbox() -> SandboxActor:
        sandboxes.append(SandboxActor())
        return sandboxes[0]

    def registry() -> FakeRegistry:
        registries.append(FakeRegistry())
        return registries[0]

    config = StackConfig(limits=LimitsConfig(**{"workers": 2, **limits}))
    async with open_actors({Role.REGISTRY: registry, Role.SANDBOX: sandbox}, config=config, state_dir=state) as system:
        ref = system.ref(Role.SANDBOX, as_=Role.TRANSPORT, principal=PRINCIPAL)
        yield World(sandboxes[0], registries[0], ref)

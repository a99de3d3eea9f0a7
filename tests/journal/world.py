# ruff: noqa: A002, N803 - the tools' parameters have the names that connectors use
"""A registry that is not one: the test catalogue over a model store, with faults to order."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import trio

from delta_actors.runtime import Actor, Call, Context, Handlers
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.codecs import exact_json
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import GetCatalogue, NewestCatalogue, Outcome, ReadTool, ToolReply, WriteTool
from tests.changes.catalogues import catalogue

TICKET: dict[str, Any] = {
    "id": "T-1",
    "title": "Login broken",
    "status": "open",
    "labels": ["bug"],
    "assignee": None,
    "comments": [{"id": 1, "body": "hm"}],
    "big": 1917043659912705296,
}


class ToolError(Exception):
    """The tool's own error."""


@dataclass
class World:
    """What the connectors hold. `faults`: by write number (1-based, in order of arrival), what happens to it."""

    tickets: dict[str, dict[str, Any]] = field(default_factory=lambda: {"T-1": copy.deepcopy(TICKET)})
    files: dict[str, str] = field(default_factory=dict)
    entities: dict[str, Any] = field(default_factory=dict)
    relations: list[Any] = field(default_factory=list)
    mails: list[Any] = field(default_factory=list)
    writes: list[tuple[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    before_write: dict[int, Callable[[], None]] = field(default_factory=dict)
    next_id: int = 100
    absent: str = "ticket {} not found"
    """How the reader of tickets says that there is none."""
    blind: bool = False
    """No ticket can be read."""

    def state(self) -> Any:
        """Return a copy of everything a reader can see."""
        return copy.deepcopy([self.tickets, self.files, self.entities, self.relations, self.mails])

    def write(self, tool: str, arguments: dict[str, Any]) -> ToolReply:
        """Make a write, with the fault ordered for it."""
        self.writes.append((tool, arguments))
        number = len(self.writes)
        self.before_write.pop(number, lambda: None)()
        match self.faults.get(number, ""):
            case "fails":
                return ToolReply(Outcome.TOOL_ERROR, message="403 quota")
            case "refused":
                return ToolReply(Outcome.REFUSED, message="bad request")
            case "busy":
                return ToolReply(Outcome.REFUSED, message="429", retry_after=0.01)
            case "lies":
                return _ok({"id": 1})
            case "silent":
                return ToolReply(Outcome.NO_REPLY, message="connection reset")
            case "commits silently":
                self.run(tool, arguments)
                return ToolReply(Outcome.NO_REPLY, message="no answer in 60 s")
            case "normalises":
                upper = {
                    key: value.upper() if key in {"status", "title"} else value for key, value in arguments.items()
                }
                return self.reply(tool, upper)
            case _:
                return self.reply(tool, arguments)

    def reply(self, tool: str, arguments: dict[str, Any]) -> ToolReply:
        try:
            return _ok(self.run(tool, arguments))
        except ToolError as error:
            return ToolReply(Outcome.TOOL_ERROR, message=str(error))

    def run(self, tool: str, given: dict[str, Any]) -> Any:
        """Run a tool truly."""
        result: Any = getattr(self, f"do_{tool}")(**copy.deepcopy(given))
        return copy.deepcopy(result)

    def _ticket(self, id: str) -> dict[str, Any]:
        if id not in self.tickets:
            raise ToolError(self.absent.format(id))
        return self.tickets[id]

    def do_get_ticket(self, id: str) -> Any:
        if self.blind:
            raise ToolError("503 unavailable, try again")
        return self._ticket(id)

    def do_list_tickets(self, status: str | None = None) -> Any:
        return {"tickets": [each for each in self.tickets.values() if status in {None, each["status"]}]}

    def do_create_ticket(self, title: str, status: str = "open", labels: list[str] | None = None) -> Any:
        self.next_id += 1
        made = {"id": f"T-{self.next_id}", "title": title, "status": status, "labels": labels or []}
        self.tickets[made["id"]] = {**made, "assignee": None, "comments": [], "big": 0}  # type: ignore[index]
        return self.tickets[made["id"]]  # type: ignore[index]

    def do_update_ticket(self, id: str, **fields: Any) -> Any:
        self._ticket(id).update(fields)
        return self.tickets[id]

    def do_delete_ticket(self, id: str) -> Any:
        self._ticket(id)
        del self.tickets[id]
        return {"deleted": id}

    def do_add_comment(self, id: str, body: str) -> Any:
        self.next_id += 1
        self._ticket(id)["comments"].append({"id": self.next_id, "body": body})
        return {"id": self.next_id, "body": body}

    def do_delete_comment(self, id: str, comment_id: int) -> Any:
        kept = [each for each in self._ticket(id)["comments"] if each["id"] != comment_id]
        if len(kept) == len(self._ticket(id)["comments"]):
            raise ToolError(f"comment {comment_id} not found")
        self.tickets[id]["comments"] = kept
        return {}

    def do_send_mail(self, to: str, text: str) -> Any:
        self.mails.append([to, text])
        return {}

    def do_read_text_file(self, path: str) -> Any:
        if path not in self.files:
            raise ToolError("ENOENT: no such file")
        return {"content": self.files[path]}

    def do_write_file(self, path: str, content: str) -> Any:
        self.files[path] = content
        return "written"

    def do_edit_file(self, path: str, edits: list[Any]) -> Any:
        for edit in edits:
            self.files[path] = self.files[path].replace(edit["oldText"], edit["newText"])
        return "edited"

    def do_create_entities(self, entities: list[Any]) -> Any:
        # As the real server does: what is there already stays as it is, and the answer names only what is new.
        new = [each for each in entities if each["name"] not in self.entities]
        self.entities.update({each["name"]: each for each in new})
        return new

    def do_delete_entities(self, entityNames: list[str]) -> Any:
        for name in entityNames:
            self.entities.pop(name, None)
        return {}

    def do_open_nodes(self, names: list[str]) -> Any:
        return {"entities": [self.entities[name] for name in names if name in self.entities], "relations": []}

    def do_create_relations(self, relations: list[Any]) -> Any:
        new = [each for each in relations if each not in self.relations]
        self.relations += new
        return new

    def do_delete_relations(self, relations: list[Any]) -> Any:
        self.relations = [each for each in self.relations if each not in relations]
        return {}

    def do_read_graph(self) -> Any:
        return {"entities": list(self.entities.values()), "relations": self.relations}


def _ok(value: Any) -> ToolReply:
    return ToolReply(Outcome.OK, exact_json.encode({"content": [], "structuredContent": {"result": value}}))


class FakeRegistry(Actor):
    """Serves the world. `gate`: writes wait for it; `hang`: write numbers that are never answered."""

    role: ClassVar[Role] = Role.REGISTRY

    def __init__(self, world: World, snapshot: Catalogue | None = None) -> None:
        self.world = world
        self.catalogue = snapshot or catalogue()
        self.older = {self.catalogue.number: self.catalogue}
        self.fetched: list[int | None] = []
        self.hang: set[int] = set()
        self.gate = trio.Event()
        self.gate.set()
        self.arrived = trio.Event()

    async def start(self, context: Context) -> tuple[str, ...]:
        return ()

    def handlers(self) -> Handlers:
        handlers = Handlers()
        handlers.ask(GetCatalogue, self._get)
        handlers.ask(NewestCatalogue, self._newest)
        handlers.ask(ReadTool, self._read)
        handlers.ask(WriteTool, self._write)
        return handlers

    async def _get(self, request: GetCatalogue, call: Call) -> Catalogue:
        self.fetched.append(request.number)
        newest = request.number in {None, self.catalogue.number}
        return self.catalogue if newest else self.older[request.number or 0]

    async def _newest(self, request: NewestCatalogue, call: Call) -> int:
        return self.catalogue.number

    async def _read(self, request: ReadTool, call: Call) -> ToolReply:
        return self.world.reply(request.tool, json.loads(request.arguments))

    async def _write(self, request: WriteTool, call: Call) -> ToolReply:
        assert call.caller == Role.JOURNAL
        assert request.digest == f"digest of {request.tool}"
        self.world.keys.append(request.key)
        self.arrived.set()
        await self.gate.wait()
        if len(self.world.writes) + 1 in self.hang:
            self.world.writes.append((request.tool, {}))
            await trio.sleep_forever()
        return self.world.write(request.tool, json.loads(request.arguments))

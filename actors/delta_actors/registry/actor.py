"""The registry's messages: who may call what, and what is answered."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import trio

from delta_actors.mcp import DeltaClient
from delta_actors.registry import held, memory
from delta_actors.registry.book import Book
from delta_actors.registry.offers import OfferBook, parts
from delta_actors.registry.shipped import shipped_profiles
from delta_actors.registry.upstream import Upstream
from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_protocol.catalogue import arguments, effects
from delta_protocol.catalogue.model import Catalogue, ConnectorState, Effect, Tool, find_tool
from delta_protocol.catalogue.offers import List, Offers
from delta_protocol.errors import Conflict, NotFound, Refused, WriteNotPlanned
from delta_protocol.nearest import did_you_mean, nearest
from delta_protocol.wire.message import Done, Json, Role
from delta_protocol.wire.registry import (
    AcceptTools,
    CatalogueChanged,
    GetCatalogue,
    GetOffers,
    HeldTool,
    HeldTools,
    ListsShown,
    NewestCatalogue,
    OffersChanged,
    PassReply,
    PassRequest,
    PassTool,
    ReadTool,
    ResourceUpdated,
    Services,
    ServiceStatus,
    StartConnectors,
    ToolReply,
    UnwatchResource,
    WatchCatalogue,
    WatchOffers,
    WatchResource,
    WriteTool,
)

log = logging.getLogger("delta.registry")

PASSED = frozenset({"resources/read", "prompts/get", "completion/complete"})
"""What is passed through beside tools' calls."""
MOST_NEWS = 10_000
"""Changed resources that wait to be told."""
STARTS_AT_ONCE = 4
SAVE_DELAY = 0.05
"""Seconds in which changes of several connectors are gathered into one write of the file."""


class RegistryActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.REGISTRY

    def __init__(self) -> None:
        self._saving = trio.CapacityLimiter(1)
        self._dirty = trio.Event()
        self._offers_dirty = False
        self._told = trio.Event()
        self._news: OrderedDict[ResourceUpdated, None] = OrderedDict()
        self._changed = trio.Event()
        self._upstreams: dict[str, Upstream] = {}

    async def start(self, context: Context) -> tuple[str, ...]:
        """Read what is remembered: the catalogue is served at once, before any connector runs."""
        self._path = context.state_dir / "registry" / "catalogue.json"
        remembered = memory.load(self._path)
        self._book = Book(context.config, remembered, shipped_profiles(), time.time())
        self._offers_path = context.state_dir / "registry" / "offers.json"
        configured = [name for name, config in context.config.connectors.items() if config.enabled]
        self._offers = OfferBook(configured, memory.load_offers(self._offers_path))
        slots = trio.CapacityLimiter(STARTS_AT_ONCE)
        for name, config in context.config.connectors.items():
            if config.enabled:
                self._upstreams[name] = Upstream(name, config, self, slots, context.nursery, context.state_dir)
                if config.fault:
                    self._book.health(name, ConnectorState.FAILED, config.fault)
        if self._book.memory != remembered:
            self._dirty.set()
        return ()

    def handlers(self) -> Handlers:
        """Looking, calling, starting."""
        handlers = Handlers()
        handlers.ask_inline(GetCatalogue, self._get)
        handlers.ask_inline(NewestCatalogue, self._newest)
        handlers.ask_inline(Services, self._services)
        handlers.ask_inline(HeldTools, self._held)
        handlers.ask_inline(AcceptTools, self._accept)
        handlers.ask(WatchCatalogue, self._watch)
        handlers.ask(ReadTool, self._read)
        handlers.ask(WriteTool, self._write)
        handlers.ask(PassTool, self._pass)
        handlers.ask(PassRequest, self._pass_request)
        handlers.ask_inline(GetOffers, self._get_offers)
        handlers.ask(WatchOffers, self._watch_offers)
        handlers.ask(WatchResource, self._watch_resource)
        handlers.ask(UnwatchResource, self._unwatch_resource)
        handlers.tell(ListsShown, self._shown)
        handlers.tell(StartConnectors, self._start_all)
        return handlers

    async def run(self) -> None:
        """Keep the file as the book is."""
        while True:
            await self._dirty.wait()
            await trio.sleep(SAVE_DELAY)
            self._dirty = trio.Event()
            await self._save()

    async def stop(self) -> None:
        """Write what is not written yet."""
        if self._dirty.is_set():
            self._dirty = trio.Event()
            await self._save()

    def statistics(self) -> dict[str, Any]:
        """The catalogue's number, and how many connectors are in which state."""
        states: dict[str, int] = {}
        for connector in self._book.newest().connectors:
            states[connector.state.value] = states.get(connector.state.value, 0) + 1
        return {"catalogue": self._book.number, "connectors": states}

    def era(self, name: str) -> str:
        """Return the era that the connector was last seen in."""
        return self._book.era(name)

    def opened(self, name: str, client: DeltaClient) -> None:
        """Remember what a session said about its server."""
        info = client.server_info
        if self._book.opened(name, client.era, info.name, info.version):
            self._dirty.set()
        if self._offers.opened(name, parts(client.capabilities)):
            self._keep_offers()

    def forget_era(self, name: str) -> None:
        """Find the connector's era out again at its next start."""
        self._book.forget_era(name)
        self._dirty.set()

    def listed(self, name: str, listing: Sequence[Json]) -> None:
        """Take a connector's listing."""
        if self._book.listed(name, listing):
            self._dirty.set()
            self._tell_watchers()

    def offered(self, name: str, kind: List, listing: Sequence[Json]) -> None:
        """Take another of a connector's lists."""
        if self._offers.listed(name, kind, listing):
            self._keep_offers()

    def updated(self, name: str, principal: str, conversation: str, uri: str) -> None:
        """Take that a watched resource changed; several changes before it is told count as one."""
        self._news[ResourceUpdated(name, uri, principal, conversation)] = None
        while len(self._news) > MOST_NEWS:
            self._news.popitem(last=False)
        self._told.set()

    def health(self, name: str, state: ConnectorState, detail: str) -> None:
        """Take a connector's state."""
        if self._book.health(name, state, detail):
            self._dirty.set()
            self._tell_watchers()

    def _get(self, request: GetCatalogue, _: Call) -> Catalogue:
        return self._book.snapshot(request.number)

    def _newest(self, _: NewestCatalogue, __: Call) -> int:
        return self._book.number

    def _services(self, _: Services, __: Call) -> tuple[ServiceStatus, ...]:
        known = {connector.name: connector for connector in self._book.newest().connectors}
        return tuple(upstream.status(known[name]) for name, upstream in self._upstreams.items())

    def _held(self, request: HeldTools, _: Call) -> tuple[HeldTool, ...]:
        return self._book.held(request.connector)

    def _accept(self, request: AcceptTools, call: Call) -> Done:
        if call.caller is not Role.OPERATOR:
            raise Refused(f"{call.caller} may not accept changed tools: only a person does")
        if self._book.accept(request.connector, request.digests):
            self._dirty.set()
            self._tell_watchers()
        return Done()

    async def _watch(self, request: WatchCatalogue, call: Call) -> Done:
        told = request.since
        while True:
            changed = self._changed
            for number, notes in self._book.notes_since(told):
                await call.emit(CatalogueChanged(number, notes))
                told = number
            await changed.wait()

    def _start_all(self, _: StartConnectors) -> None:
        for upstream in self._upstreams.values():
            upstream.start()

    def _get_offers(self, _: GetOffers, __: Call) -> Offers:
        return self._offers.newest

    async def _watch_offers(self, _: WatchOffers, call: Call) -> Done:
        for upstream in self._upstreams.values():
            await upstream.forget_watchers()
        self._news.clear()
        told = 0
        while True:
            while self._news:
                await call.emit(self._news.popitem(last=False)[0])
            if told < self._offers.newest.number:
                if told:
                    await trio.sleep(SAVE_DELAY)
                told = self._offers.newest.number
                await call.emit(OffersChanged(told))
                continue
            await self._told.wait()
            self._told = trio.Event()

    async def _watch_resource(self, request: WatchResource, call: Call) -> Done:
        _only_transport(call, request.connector)
        self._book.connector(request.connector)
        await self._upstreams[request.connector].watch(request.uri, call, wanted=True)
        return Done()

    async def _unwatch_resource(self, request: UnwatchResource, call: Call) -> Done:
        _only_transport(call, request.connector)
        if request.connector in self._upstreams:
            await self._upstreams[request.connector].watch(request.uri, call, wanted=False)
        return Done()

    def _shown(self, _: ListsShown) -> None:
        for upstream in self._upstreams.values():
            upstream.shown()

    async def _read(self, request: ReadTool, call: Call) -> ToolReply:
        upstream, tool = await self._find(request.connector, request.tool)
        if effects.effect_of(tool, request.arguments) is not Effect.READ:
            raise WriteNotPlanned(
                f"{request.connector}.{tool.name} may change something ({tool.reason}): it is made as part of a plan "
                "only",
                connector=request.connector,
                tool=tool.name,
            )
        if call.caller is not Role.JOURNAL:
            held.check(request.connector, tool)
        return await upstream.read(tool.name, arguments.check(tool, request.arguments), call)

    async def _write(self, request: WriteTool, call: Call) -> ToolReply:
        where = {"connector": request.connector, "tool": request.tool}
        if call.caller is not Role.JOURNAL:
            raise WriteNotPlanned(f"{call.caller} may not write: only the journal makes planned calls", **where)
        if not (request.delta and request.call and request.key):
            raise WriteNotPlanned("a planned call names its delta, its call number and its intent's key", **where)
        upstream, tool = await self._find(request.connector, request.tool)
        if tool.digest != request.digest:
            raise Conflict(f"{request.connector}.{tool.name} is not the tool it was when this was planned", **where)
        arguments.check(tool, request.arguments)
        # As planned, byte for byte: nothing is converted between approval and call.
        return await upstream.write(tool.name, request.arguments, call)

    async def _pass(self, request: PassTool, call: Call) -> PassReply:
        _only_transport(call, request.connector)
        if self._book.connector(request.connector).expose != "tools":
            raise WriteNotPlanned(
                f'{request.connector} is not configured with expose = "tools"',
                connector=request.connector,
                tool=request.tool,
            )
        upstream, tool = await self._find(request.connector, request.tool)
        held.check(request.connector, tool)
        checked = arguments.check(tool, request.arguments)
        params = {"name": tool.name, "arguments": msgspec.Raw(checked), **_rounds(request)}
        reads = effects.effect_of(tool, request.arguments) is Effect.READ
        return await upstream.forward("tools/call", msgspec.json.encode(params), call, again=reads)

    async def _pass_request(self, request: PassRequest, call: Call) -> PassReply:
        _only_transport(call, request.connector)
        if request.method not in PASSED:
            raise Refused(f"{request.method} is no request that is passed through", connector=request.connector)
        self._book.connector(request.connector)
        params = {**msgspec.json.decode(request.params, type=dict[str, msgspec.Raw]), **_rounds(request)}
        upstream = self._upstreams[request.connector]
        return await upstream.forward(request.method, msgspec.json.encode(params), call, again=True)

    async def _find(self, connector: str, name: str) -> tuple[Upstream, Tool]:
        """Return a tool that may be called, by its own name or its identifier; a connector never seen is started first.

        Raises `NotFound` with the nearest names, `Refused` for one that is off or gone.
        """
        known = self._book.connector(connector)
        upstream = self._upstreams[connector]
        if not known.tools:
            await upstream.ready()
            known = self._book.connector(connector)
        tool = find_tool(known, name) or next((one for one in known.tools if one.alias == name), None)
        if tool is None:
            names = [one.name for one in known.tools]
            hint = did_you_mean(name, names, 3)
            said = f"{connector} has no tool {name}" + (f"; {hint}" if hint else "")
            raise NotFound(said, connector=connector, nearest=nearest(name, names))
        if tool.gone:
            raise NotFound(f"{connector} no longer has the tool {tool.name}", connector=connector, nearest=[])
        if tool.effect is Effect.OFF:
            raise Refused(f"{connector}.{tool.name} is off ({tool.reason})", connector=connector, tool=tool.name)
        return upstream, tool

    def _tell_watchers(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def _save(self) -> None:
        await trio.to_thread.run_sync(memory.save, self._path, self._book.memory, limiter=self._saving)
        if self._offers_dirty:
            self._offers_dirty = False
            await trio.to_thread.run_sync(memory.save, self._offers_path, self._offers.memory, limiter=self._saving)

    def _keep_offers(self) -> None:
        self._told.set()
        self._offers_dirty = True
        self._dirty.set()


def _only_transport(call: Call, connector: str) -> None:
    if call.caller != Role.TRANSPORT:
        raise Refused(f"{call.caller} may not pass requests through", connector=connector)


def _rounds(request: PassTool | PassRequest) -> dict[str, object]:
    """Return the members that answer what an earlier result asked for (spec 1.8)."""
    members: dict[str, object] = {}
    if request.responses is not None:
        members["inputResponses"] = msgspec.Raw(request.responses)
    if request.state is not None:
        members["requestState"] = request.state
    return members

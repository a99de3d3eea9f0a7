"""`Gateway`: the tools that a client of the stack sees."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial

import trio

from delta_actors.gateway.answering import Answers, Facts, Returned
from delta_actors.gateway.caller import Caller
from delta_actors.gateway.catalogues import Catalogues
from delta_actors.gateway.conversations import Conversation, Conversations, Definitions
from delta_actors.gateway.deltas import Deltas
from delta_actors.gateway.held import HeldCalls
from delta_actors.gateway.offered import Offered
from delta_actors.gateway.passing import Passed, passed_tools
from delta_actors.gateway.programs import Programs
from delta_actors.gateway.reading import Lookups
from delta_actors.gateway.relaying import Relay, busy
from delta_actors.mcp import RequestContext, ToolDefinition, ToolResult, UnknownTool
from delta_actors.runtime.actor import Ref
from delta_protocol.answers import arguments as check
from delta_protocol.answers.definitions import definitions
from delta_protocol.catalogue import apitext
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.model import DeltaState
from delta_protocol.codecs import exact_json
from delta_protocol.config import LimitsConfig
from delta_protocol.errors import LimitExceeded, Overloaded
from delta_protocol.mcp.mirrors import Mirror
from delta_protocol.wire.journal import DeltaReport, Replan
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import PassTool

_SETTLE = 0.3
"""Seconds in which changes of the catalogue are taken for one."""


class _Surface:
    """What one catalogue looks like from outside; the API text is made when somebody wants to see it."""

    def __init__(self, catalogue: Catalogue, api_tokens: int) -> None:
        self.number = catalogue.number
        self.passed: Mapping[str, Passed] = passed_tools(catalogue)
        self._catalogue = catalogue
        self._api_tokens = api_tokens

    @cached_property
    def definitions(self) -> Definitions:
        """The three tools, then those passed through."""
        shown: list[ToolDefinition | Json] = [*definitions(self._api())]
        return [*shown, *(tool.definition for tool in self.passed.values())]

    def _api(self) -> str:
        try:
            return apitext.render(self._catalogue, self._api_tokens)
        except LimitExceeded as error:
            return f'{error.message} Until then: delta_read {{ refs: [""] }} lists what is connected.'


class Gateway:
    """A `ToolSource`: `delta`, `delta_read`, `delta_apply`, and whatever connectors are passed through.

    Calls that outlive their requests live in `nursery`. `answered` is called when a client has listed the tools or
    called one.
    """

    def __init__(
        self,
        *,
        registry: Ref,
        sandbox: Ref,
        journal: Ref,
        results: Ref,
        catalogues: Catalogues,
        offered: Offered,
        nursery: trio.Nursery,
        limits: LimitsConfig,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._catalogues = catalogues
        self._limits = limits
        self._answers = Answers(results, limits.answer_tokens)
        self._deltas = Deltas(journal)
        self._programs = Programs(sandbox, journal, catalogues, self._deltas, limits)
        self._lookups = Lookups(registry, journal, results, catalogues, self._answers)
        self._conversations = Conversations()
        self._surface: _Surface | None = None
        self._announced: Definitions | None = None
        self._answered = answered
        self._open = 0
        self._closing = False
        self._idle = trio.Event()
        self._held = HeldCalls(nursery)
        self.relay = Relay(registry, offered, self._held, limits.request_deadline, self.counted)

    async def list_tools(self, context: RequestContext) -> Sequence[ToolDefinition | Json]:
        """Return the tools as this conversation knows them."""
        catalogue = await self._catalogues.newest()
        self._answered()
        surface = self._shown(catalogue)
        return self._conversations.listed(context.conversation, catalogue, lambda: surface.definitions)

    def mirrors(self, name: str) -> Sequence[Mirror]:
        """Return the arguments of a passed tool that a client over HTTP repeats in headers."""
        passed = self._surface.passed.get(name) if self._surface is not None else None
        return passed.mirrors if passed is not None else ()

    async def wait_changed(self) -> None:
        """Return when a new conversation would be shown something else than when this last returned."""
        newest = self._shown(await self._catalogues.newest()).definitions
        if self._announced is None:
            self._announced = newest
        while newest == self._announced:
            await self._catalogues.wait_changed()
            await trio.sleep(_SETTLE)
            newest = self._shown(await self._catalogues.newest()).definitions
        self._announced = newest

    async def call_tool(self, name: str, arguments: Json, context: RequestContext) -> ToolResult | Json:
        """Run one of the tools. Raises `UnknownTool`, `Overloaded`, `Invalid`, and what crosses from the actors."""
        async with self.counted():
            return await self._call(name, arguments, context)

    @asynccontextmanager
    async def counted(self) -> AsyncGenerator[None, None]:
        """Count a client's request in for the block. Raises `Overloaded` where the stack stops, or has no room."""
        if self._closing:
            raise Overloaded("the stack is stopping", retry_after=1)
        self._answered()
        self._open += 1
        try:
            yield
        except Overloaded as error:
            raise busy(error) from None
        finally:
            self._open -= 1
            if self._closing and not self._open:
                self._idle.set()

    async def drain(self) -> None:
        """Take no more calls, and return when those in progress have ended."""
        self._closing = True
        if self._open:
            await self._idle.wait()

    async def _call(self, name: str, arguments: Json, context: RequestContext) -> ToolResult | Json:
        catalogue = await self._catalogues.newest()
        surface = self._shown(catalogue)
        conversation = self._conversations.called(context.conversation, catalogue, lambda: surface.definitions)
        if passed := surface.passed.get(name):
            make = partial(PassTool, passed.connector, passed.tool, arguments)
            return await self.relay.pass_on(context, f"{passed.connector}.{passed.tool}", make)
        caller = Caller(context, self._limits.request_deadline)
        async with caller.open():
            match name:
                case "delta":
                    facts = await self._delta(caller, arguments)
                case "delta_apply":
                    facts = await self._delta_apply(caller, arguments)
                case "delta_read":
                    return await self._delta_read(caller, arguments, conversation)
                case _:
                    raise UnknownTool(name)
            return await self._answers.result(facts, self._news(conversation))

    def statistics(self) -> dict[str, int]:
        """Return how many conversations are remembered, and of which catalogue."""
        return {
            "calls": self._open,
            "held": len(self._held),
            "conversations": len(self._conversations),
            "catalogue": self._surface.number if self._surface is not None else 0,
        }

    async def _delta(self, caller: Caller, arguments: Json) -> Facts:
        given = check.delta_arguments(arguments)
        return await self._programs.run(caller, given.code, dry_run=given.dry_run, again=given.again)

    async def _delta_read(self, caller: Caller, arguments: Json, conversation: Conversation) -> ToolResult:
        given = check.read_arguments(arguments)
        if given.code is not None:
            facts = await self._programs.run(caller, given.code, dry_run=True)
            return await self._answers.result(facts, self._news(conversation))
        assert given.refs is not None
        return await self._lookups.read(caller, given.refs, self._news(conversation))

    async def _delta_apply(self, caller: Caller, arguments: Json) -> Facts:
        given = check.apply_arguments(arguments)
        if given.undo is not None:
            return Facts(report=await self._deltas.undo(caller, given.undo, given.force))
        assert given.delta is not None
        if given.onto:
            known = await self._journal.ask(Replan(given.delta), nowait=True)
            return await self._programs.run(caller, known.code, again=True)
        if given.resolve:
            return _facts(await self._deltas.settle(caller, given.delta, given.resolve))
        return _facts(await self._deltas.apply(caller, given.delta))

    def _news(self, conversation: Conversation) -> Sequence[str]:
        """Return what the conversation has not been told of; it is told now."""
        conversation.told, news = self._catalogues.news_since(conversation.told)
        return news

    def _shown(self, catalogue: Catalogue) -> _Surface:
        surface = self._surface
        if surface is None or surface.number != catalogue.number:
            surface = self._surface = _Surface(catalogue, self._limits.api_tokens)
        return surface


def _facts(report: DeltaReport) -> Facts:
    applied = report.state is DeltaState.APPLIED and report.returned is not None
    returned = Returned(exact_json.decode(report.returned or b"null")) if applied else None
    return Facts(returned, report)

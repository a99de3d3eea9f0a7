"""The journal under real links, with a registry that serves a model store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from delta_actors.journal import JournalActor
from delta_actors.runtime import Actor, open_actors
from delta_actors.runtime.refs import ActorRef
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.changes.holes import pack
from delta_protocol.changes.model import EntityChange, EntityRef, Recording, Value, Write
from delta_protocol.changes.plan import build_plan
from delta_protocol.codecs import exact_json
from delta_protocol.config import LimitsConfig, StackConfig
from delta_protocol.wire.journal import (
    Apply,
    Begin,
    DeltaReport,
    GetDelta,
    Propose,
    Undo,
)
from delta_protocol.wire.message import Principal, Role
from tests.journal.world import TICKET, FakeRegistry, World

EVA = Principal("eva", "token")
NULL = Value(b"null")


class Stand:
    """A journal, the world behind it, and who asks."""

    def __init__(self, system: Any, registry: FakeRegistry) -> None:
        self.system = system
        self.registry = registry
        self.world = registry.world
        self.client: ActorRef = system.ref(Role.JOURNAL, as_=Role.TRANSPORT, principal=EVA)
        self.operator: ActorRef = system.ref(Role.JOURNAL, as_=Role.OPERATOR)

    async def propose(
        self, recording: Recording, *, code: str = "x", returned: Value = NULL, **more: Any
    ) -> DeltaReport:
        with trio.fail_after(20):
            begun = await self.client.ask(Begin("c1", code, "{}", 7, 0, 0, again=True))
            plan = build_plan(recording, self.registry.older[7])
            return await self.client.ask(Propose(begun.delta, plan, returned, **more))

    async def apply(self, delta: str, seconds: float = 20) -> DeltaReport:
        with trio.fail_after(seconds):
            return await self.client.ask(Apply(delta))

    async def done(self, recording: Recording, **more: Any) -> DeltaReport:
        return await self.apply((await self.propose(recording, **more)).id)

    async def undo(self, delta: str, *force: str) -> DeltaReport:
        with trio.fail_after(20):
            return await self.client.ask(Undo(delta, force))

    async def get(self, delta: str) -> DeltaReport:
        with trio.fail_after(20):
            return await self.client.ask(GetDelta(delta))


@asynccontextmanager
async def standing(
    folder: Path, world: World | None = None, snapshot: Catalogue | None = None, **limits: Any
) -> AsyncIterator[Stand]:
    registry = FakeRegistry(world or World(), snapshot)
    config = StackConfig(limits=LimitsConfig(**limits))
    actors: dict[str, Callable[[], Actor]] = {Role.REGISTRY: lambda: registry, Role.JOURNAL: JournalActor}
    async with open_actors(actors, config=config, state_dir=folder) as system:
        yield Stand(system, registry)


def ticket(after: dict[str, Any], before: dict[str, Any] = TICKET) -> EntityChange:
    entity = EntityRef("tickets", "ticket", b'"T-1"')
    return EntityChange(entity, exact_json.encode(before), pack(before | after), (), 1, read_fields=("title",))


def closing() -> Recording:
    comments = [*TICKET["comments"], {"body": "Closed: fixed in 2.3"}]
    return Recording((ticket({"status": "closed", "labels": ["bug", "late"], "comments": comments}),))


def writes(*calls: tuple[str, str, dict[str, Any]], **more: Any) -> Recording:
    return Recording(
        writes=tuple(
            Write(number, connector, tool, pack(arguments), seq=number, line=number, **more)
            for number, (connector, tool, arguments) in enumerate(calls, 1)
        ),
    )

"""A registry as tests use it: the actor with real links, fake connectors, and the links of its callers."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from delta_actors.registry import RegistryActor
from delta_actors.runtime import Ref, System, open_actors
from delta_protocol.catalogue.model import Catalogue, Connector, Tool, find_tool
from delta_protocol.config import ConnectorConfig, StackConfig
from delta_protocol.wire.message import Origin, Principal, Role
from delta_protocol.wire.registry import GetCatalogue, Services, ServiceStatus, StartConnectors, WriteTool

FAKE = Path(__file__).with_name("fake_server.py")
ALICE = Principal("alice", "token")


def fake(state: Path, *options: str, **config: object) -> ConnectorConfig:
    """Return a fake connector that keeps its notes under `state`."""
    return ConnectorConfig(command=sys.executable, args=(str(FAKE), str(state), *options), **config)  # type: ignore[arg-type]


@asynccontextmanager
async def registry(state_dir: Path, connectors: Mapping[str, ConnectorConfig]) -> AsyncGenerator[System]:
    """Run a registry over the connectors, not started yet."""
    config = StackConfig(connectors=dict(connectors))
    async with open_actors({Role.REGISTRY: RegistryActor}, config=config, state_dir=state_dir) as system:
        yield system


def from_(system: System, role: Role, origin: Origin | None = None) -> Ref:
    """Return a link to the registry as `role` has it, on Alice's behalf."""
    return system.ref(Role.REGISTRY, as_=role, principal=ALICE, origin=origin)


async def started(system: System) -> Ref:
    """Tell the registry that a client has had its answer, and return transport's link."""
    ref = from_(system, Role.TRANSPORT)
    await ref.tell(StartConnectors())
    return ref


async def catalogue_when(ref: Ref, wanted: Callable[[Catalogue], bool], limit: float = 30.0) -> Catalogue:
    """Return the catalogue once it is as wanted."""
    with trio.fail_after(limit):
        while True:
            catalogue = await ref.ask(GetCatalogue())
            if wanted(catalogue):
                return catalogue
            await trio.sleep(0.02)


async def service_when(ref: Ref, name: str, wanted: Callable[[ServiceStatus], bool]) -> ServiceStatus:
    """Return a connector's status once it is as wanted."""
    with trio.fail_after(30):
        while True:
            for status in await ref.ask(Services()):
                if status.name == name and wanted(status):
                    return status
            await trio.sleep(0.02)


def listed(*names: str) -> Callable[[Catalogue], bool]:
    """Whether all of these connectors have listed tools."""

    def wanted(catalogue: Catalogue) -> bool:
        return all((found := catalogue.connector(name)) is not None and found.tools for name in names)

    return wanted


def connector(catalogue: Catalogue, name: str) -> Connector:
    found = catalogue.connector(name)
    assert found is not None
    return found


def tool(catalogue: Catalogue, name: str, tool_name: str) -> Tool:
    found = find_tool(connector(catalogue, name), tool_name)
    assert found is not None
    return found


def planned(catalogue: Catalogue, name: str, tool_name: str, arguments: bytes = b"{}") -> WriteTool:
    """Return the journal's message for one planned call."""
    digest = tool(catalogue, name, tool_name).digest
    return WriteTool(name, tool_name, arguments, "d_aaaaaaaaaaaa", "d_aaaaaaaaaaaa:1.1", "key", digest)


def calls(state: Path) -> list[str]:
    """Return what a fake connector noted."""
    notes = state / "calls"
    return notes.read_text().splitlines() if notes.exists() else []

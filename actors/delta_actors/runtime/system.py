"""Actors as tasks of one process: for embedding, and for tests.

The links are real: Unix sockets in a private directory, greeted with tokens along the ask table, so an actor cannot
tell the difference from having a process of its own.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from delta_actors.runtime.actor import Actor
from delta_actors.runtime.birth import Birth, Credentials, listen, make_credentials
from delta_actors.runtime.current import NOTHING, Inherited
from delta_actors.runtime.host import Host, open_ref
from delta_actors.runtime.refs import ActorRef
from delta_protocol.config import StackConfig
from delta_protocol.wire.control import ActorStatistics
from delta_protocol.wire.message import Origin, Principal, Role
from delta_protocol.wire.table import ASKS

ActorFactory = Callable[[], Actor]


class System:
    """The actors that `open_actors` runs."""

    def __init__(
        self,
        nursery: trio.Nursery,
        config: StackConfig,
        state_dir: Path,
        runtime_dir: Path,
        credentials: Mapping[Role, Credentials],
        sockets: Mapping[Role, Mapping[str, socket.socket]],
    ) -> None:
        self._nursery = nursery
        self._config = config
        self._state_dir = state_dir
        self._runtime_dir = runtime_dir
        self._credentials = credentials
        self._sockets = sockets
        self._hosts: dict[Role, Host] = {}
        self._incarnations: dict[Role, int] = {}
        self._addresses: dict[Role, tuple[str, ...]] = {}
        self._ended: dict[Role, trio.Event] = {}

    def ref(
        self, role: Role, *, as_: Role, principal: Principal | None = None, origin: Origin | None = None
    ) -> ActorRef:
        """Return a ref that greets as `as_`. `KeyError` when the ask table has no such edge.

        `principal` and `origin` are the default for asks outside any call. The link lives as long as the system.
        """
        default = NOTHING if principal is None else Inherited(principal, origin)
        return open_ref(self._birth(as_), role, self._nursery, default)

    def addresses(self, role: Role) -> tuple[str, ...]:
        """Return what the actor bound for the outside."""
        return self._addresses[role]

    def statistics(self, role: Role) -> ActorStatistics:
        """Return the actor's figures of this moment."""
        return self._hosts[role].statistics()

    def _birth(self, role: Role) -> Birth:
        credentials = self._credentials[role]
        return Birth(
            role=role,
            incarnation=self._incarnations.get(role, 0),
            config=self._config,
            state_dir=self._state_dir,
            runtime_dir=self._runtime_dir,
            sockets=self._sockets.get(role, {}),
            grants=credentials.grants,
            admissions=credentials.admissions,
        )

    async def start(self, role: Role, factory: ActorFactory) -> None:
        """Start an actor and return when it serves."""
        self._incarnations[role] = self._incarnations.get(role, 0) + 1
        host = self._hosts[role] = Host(factory(), self._birth(role))
        self._ended[role] = ended = trio.Event()

        async def live(task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
            try:
                await host.run(task_status)
            finally:
                ended.set()

        with trio.fail_after(self._config.actor(role).start_timeout):
            self._addresses[role] = await self._nursery.start(live)

    async def stop(self) -> None:
        """Stop all actors, last started first."""
        for role in reversed(self._hosts):
            timeout = self._config.actor(role).stop_timeout
            self._hosts[role].stop(trio.current_time() + timeout)
            await self._ended[role].wait()


@asynccontextmanager
async def open_actors(
    actors: Mapping[Role, ActorFactory],
    *,
    config: StackConfig | None = None,
    state_dir: Path,
    sockets: Mapping[Role, Mapping[str, socket.socket]] | None = None,
    asks: Mapping[Role, frozenset[Role]] = ASKS,
) -> AsyncIterator[System]:
    """Run `actors` as tasks; leaving the block stops them, in reverse order and within their `stop_timeout`."""
    runtime_dir = Path(tempfile.mkdtemp(prefix="delta-"))
    paths = {role: runtime_dir / f"{role}.sock" for role in actors}
    listeners: dict[Role, socket.socket] = {}
    try:
        for role, path in paths.items():
            listeners[role] = listen(path)
        given = {role: {**(sockets or {}).get(role, {}), "link": listener} for role, listener in listeners.items()}
        credentials = make_credentials({role: str(path) for role, path in paths.items()}, asks)
        async with trio.open_nursery() as nursery:
            system = System(nursery, config or StackConfig(), state_dir, runtime_dir, credentials, given)
            async with trio.open_nursery() as starting:
                for role, factory in actors.items():
                    starting.start_soon(system.start, role, factory)
            try:
                yield system
            finally:
                with trio.CancelScope(shield=True):
                    await system.stop()
            nursery.cancel_scope.cancel()
    finally:
        for listener in listeners.values():
            listener.close()
        shutil.rmtree(runtime_dir, ignore_errors=True)

"""Actors as tasks of one process: for embedding, and for tests.

The links are real: Unix sockets in a private directory, greeted with tokens along the ask table, so an actor cannot
tell the difference from having a process of its own, and a restarted one takes over the same socket.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from tricycle import open_service_nursery

from delta_actors.runtime.birth import Birth, listen, make_credentials
from delta_actors.runtime.current import NOTHING, Inherited
from delta_actors.runtime.host import open_ref
from delta_actors.runtime.refs import ActorRef
from delta_actors.runtime.schema import schema_of
from delta_actors.runtime.supervising import ActorFactory, TaskSupervisor
from delta_protocol.config import StackConfig
from delta_protocol.supervision import Backoff, Intensity, Member, Restart, RestartTable, Strategy
from delta_protocol.wire.control import ActorStatistics
from delta_protocol.wire.message import Origin, Principal
from delta_protocol.wire.table import ASKS, cycle

OTP_INTENSITY = Intensity()
DEFAULT_BACKOFF = Backoff()


class System:
    """The actors that `open_actors` runs."""

    def __init__(self, nursery: trio.Nursery, supervisor: TaskSupervisor, births: _Births) -> None:
        self._nursery = nursery
        self._supervisor = supervisor
        self._births = births

    def ref(
        self,
        role: str,
        *,
        as_: str,
        principal: Principal | None = None,
        origin: Origin | None = None,
        nursery: trio.Nursery | None = None,
    ) -> ActorRef:
        """Return a ref that greets as `as_`. `KeyError` when the ask table has no such edge.

        `principal` and `origin` are the default for asks outside any call. The link lives as long as `nursery`, by
        default as long as the system.
        """
        actor = self._supervisor.life(role).actor
        schema = schema_of(actor.inboxes.get(role, ()), actor.items)
        default = NOTHING if principal is None else Inherited(principal, origin)
        return open_ref(self._births.make(as_, 0), role, schema, nursery or self._nursery, default)

    def addresses(self, role: str) -> tuple[str, ...]:
        """Return what the actor's newest incarnation bound for the outside."""
        return self._supervisor.life(role).addresses

    def restarts(self, role: str) -> int:
        """Return how often the actor was started again."""
        return self._supervisor.restarts(role)

    def statistics(self, role: str) -> ActorStatistics:
        """Return the actor's figures of this moment."""
        return self._supervisor.life(role).host.statistics()

    def kill(self, role: str) -> None:
        """End the actor as SIGKILL would end a process; supervision goes on from there. For tests of one's own."""
        self._supervisor.kill(role)


class _Births:
    """Makes births: the same sockets and tokens for every incarnation."""

    def __init__(
        self,
        config: StackConfig,
        state_dir: Path,
        runtime_dir: Path,
        sockets: Mapping[str, Mapping[str, socket.socket]],
        asks: Mapping[str, frozenset[str]],
    ) -> None:
        self._config = config
        self._state_dir = state_dir
        self._runtime_dir = runtime_dir
        self._sockets = sockets
        self._credentials = make_credentials(
            {role: given["link"].getsockname() for role, given in sockets.items()}, asks
        )

    def make(self, role: str, incarnation: int) -> Birth:
        credentials = self._credentials[role]
        return Birth(
            role=role,
            incarnation=incarnation,
            config=self._config,
            state_dir=self._state_dir,
            runtime_dir=self._runtime_dir,
            sockets=self._sockets.get(role, {}),
            grants=credentials.grants,
            admissions=credentials.admissions,
        )


@asynccontextmanager
async def open_actors(
    actors: Mapping[str, ActorFactory],
    *,
    config: StackConfig | None = None,
    state_dir: Path,
    sockets: Mapping[str, Mapping[str, socket.socket]] | None = None,
    asks: Mapping[str, frozenset[str]] = ASKS,
    strategy: Strategy = Strategy.ONE_FOR_ONE,
    restart: Mapping[str, Restart] | None = None,
    intensity: Intensity = OTP_INTENSITY,
    backoff: Backoff = DEFAULT_BACKOFF,
) -> AsyncGenerator[System, None]:
    """Run `actors` as supervised tasks while inside; leaving stops them in reverse order within their `stop_timeout`.

    `sockets` are listening sockets for the outside, by role and name; they stay the caller's. `asks` must be acyclic.
    Raises `ValueError` for a circle in `asks`, what an actor's first start raised, and `RestartIntensityExceeded`
    (cancelling the block) when they crash too often.
    """
    if circle := cycle(asks):
        raise ValueError("these actors would wait for each other: " + " -> ".join(circle))
    runtime_dir = Path(tempfile.mkdtemp(prefix="delta-"))
    listeners: dict[str, socket.socket] = {}
    try:
        for role in actors:
            listeners[role] = listen(runtime_dir / f"{role}.sock")
        given = {role: {**(sockets or {}).get(role, {}), "link": listener} for role, listener in listeners.items()}
        births = _Births(config or StackConfig(), state_dir, runtime_dir, given, asks)
        members = [Member(role, (restart or {}).get(role, Restart.PERMANENT)) for role in actors]
        table = RestartTable(members, strategy=strategy, intensity=intensity, backoff=backoff)
        async with open_service_nursery() as nursery:
            supervisor = TaskSupervisor(nursery, actors, table, births.make)
            await supervisor.start_all()
            async with trio.open_nursery() as supervising:
                supervising.start_soon(supervisor.run)
                yield System(nursery, supervisor, births)
                supervising.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await supervisor.stop_all()
            nursery.cancel_scope.cancel()
    finally:
        for listener in listeners.values():
            listener.close()
        shutil.rmtree(runtime_dir, ignore_errors=True)

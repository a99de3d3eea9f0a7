"""Supervision of actors that are tasks: `delta_protocol.supervision` decides, this module stops, waits and starts."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping

import trio

from delta_actors.runtime.actor import Actor
from delta_actors.runtime.birth import Birth
from delta_actors.runtime.failures import sole
from delta_actors.runtime.host import Host
from delta_protocol.errors import DeltaError
from delta_protocol.supervision import RestartTable

log = logging.getLogger("delta.actors")

ActorFactory = Callable[[], Actor]


class RestartIntensityExceeded(DeltaError):
    """Actors ended more often than the table allows: all were stopped. `detail["actor"]` was the last straw.

    `__cause__` is the last crash, where it happened in this process.
    """


class CannotStart(RestartIntensityExceeded):
    """An actor said that no further start can help; it was not tried again, and all were stopped."""


class Life:
    """One incarnation of one actor."""

    def __init__(self, actor: Actor, birth: Birth) -> None:
        self.actor = actor
        self.host = Host(actor, birth)
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.stopping = False
        self.addresses: tuple[str, ...] = ()


class TaskSupervisor:
    """Runs actors in `nursery` and restarts them by `table`. A start failure before `run` belongs to the caller."""

    def __init__(
        self,
        nursery: trio.Nursery,
        factories: Mapping[str, ActorFactory],
        table: RestartTable,
        make_birth: Callable[[str, int], Birth],
    ) -> None:
        self._nursery = nursery
        self._factories = factories
        self._table = table
        self._make_birth = make_birth
        self._lives: dict[str, Life] = {}
        self._incarnations: dict[str, int] = {}
        self._delayed: dict[str, trio.CancelScope] = {}
        self._ends_in, self._ends = trio.open_memory_channel[tuple[str, BaseException]](len(factories))

    def life(self, role: str) -> Life:
        """Return the newest incarnation. `KeyError` before the first."""
        return self._lives[role]

    def restarts(self, role: str) -> int:
        """Return how often the actor was started again."""
        return max(self._incarnations.get(role, 0) - 1, 0)

    async def start_all(self) -> None:
        """Start every actor, all at once; return when all serve. Raises what one of them raised."""
        try:
            async with trio.open_nursery() as starting:
                for role in self._table.start():
                    starting.start_soon(self._start, role)
        except BaseExceptionGroup as group:
            raise sole(group) from None

    async def run(self) -> None:
        """Restart what crashes, until cancelled. Raises `RestartIntensityExceeded`."""
        async for role, error in self._ends:
            decision = self._table.ended(role, clean=False, now=trio.current_time(), chance=random.random())  # noqa: S311
            for other in decision.stop:
                await self._stop(other)
            if decision.escalate:
                raise RestartIntensityExceeded(f"{role} crashed once too often", actor=role) from error
            if decision.start:
                self._nursery.start_soon(self._restart, decision.start, decision.delay)

    async def stop_all(self) -> None:
        """Stop everything, last started first, each within its `stop_timeout` and what `Actor.stop` may take."""
        for role in self._table.stop():
            await self._stop(role)

    def kill(self, role: str) -> None:
        """End an actor as SIGKILL would end a process: no drain; calls in flight fail."""
        self._lives[role].scope.cancel()

    async def _restart(self, roles: tuple[str, ...], delay: float) -> None:
        with trio.CancelScope() as scope:
            for role in roles:
                self._delayed[role] = scope
            starting = roles[0]
            try:
                await trio.sleep(delay)
                for starting in roles:
                    await self._start(starting)
            except Exception as error:  # noqa: BLE001 - a start that failed is an end like any other
                self._ends_in.send_nowait((starting, sole(error)))
            finally:
                for role in roles:
                    if self._delayed.get(role) is scope:
                        del self._delayed[role]

    async def _start(self, role: str) -> None:
        number = self._incarnations[role] = self._incarnations.get(role, 0) + 1
        birth = self._make_birth(role, number)
        life = self._lives[role] = Life(self._factories[role](), birth)
        with trio.fail_after(birth.config.actor(role).start_timeout):
            life.addresses = await self._nursery.start(self._live, role, life)
        self._table.ready(role, trio.current_time())

    async def _live(self, role: str, life: Life, task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
        error: BaseException = RuntimeError(f"{role} was killed")
        try:
            with life.scope:
                await life.host.run(task_status)
        except Exception as crash:
            if not life.host.serving:
                raise
            error = sole(crash)
            log.error("%s crashed", role, exc_info=crash)  # noqa: TRY400 - the group and its tracebacks
        finally:
            life.ended.set()
        if not life.stopping:
            self._ends_in.send_nowait((role, error))

    async def _stop(self, role: str) -> None:
        if (delayed := self._delayed.pop(role, None)) is not None:
            delayed.cancel()
        life = self._lives.get(role)
        if life is None or life.ended.is_set():
            return
        life.stopping = True
        life.host.stop(trio.current_time() + life.host.stop_timeout)
        # No bound: a task that shields itself cannot be killed. What must be killable belongs into a process.
        await life.ended.wait()

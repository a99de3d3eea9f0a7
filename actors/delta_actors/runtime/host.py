"""The life of one actor, the same in a task as in a process: start, serve, drain, stop."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import msgspec
import trio

from delta_actors.runtime.actor import Actor, Handlers, Ref
from delta_actors.runtime.birth import Birth
from delta_actors.runtime.current import NOTHING, Inherited
from delta_actors.runtime.greeting import Identity, admit
from delta_actors.runtime.refs import ActorRef
from delta_actors.runtime.schema import Schema, schema_of
from delta_actors.runtime.serving import CalleeLink, Counters
from delta_actors.runtime.workers import WorkerPool
from delta_protocol.config import StackConfig
from delta_protocol.errors import ProtocolViolation, Refused
from delta_protocol.wire.control import ActorStatistics

log = logging.getLogger("delta.actors")

MAX_LINKS = 64
"""Links to one actor; more are closed at once."""

CLOSE_TIMEOUT = 2.0
"""Seconds for `Actor.stop` after the drain, whatever became of that."""


@dataclass(slots=True)
class ActorContext:
    """The runtime's `Context`."""

    birth: Birth
    schemas: Callable[[str], Schema]
    nursery: trio.Nursery
    links: trio.Nursery
    stopping: trio.Event = field(default_factory=trio.Event)
    refs: dict[str, ActorRef] = field(default_factory=dict[str, ActorRef])

    @property
    def role(self) -> str:
        """The actor's own role."""
        return self.birth.role

    @property
    def incarnation(self) -> int:
        """Counts the actor's starts."""
        return self.birth.incarnation

    @property
    def config(self) -> StackConfig:
        """The stack's configuration."""
        return self.birth.config

    @property
    def state_dir(self) -> Path:
        """What survives restarts."""
        return self.birth.state_dir

    @property
    def runtime_dir(self) -> Path:
        """Things of this run."""
        return self.birth.runtime_dir

    @property
    def sockets(self) -> Mapping[str, socket]:
        """Inherited listening sockets for the outside."""
        return {name: sock for name, sock in self.birth.sockets.items() if name != "link"}

    def ref(self, role: str) -> Ref:
        """Return the ref of a role that this actor may ask; `KeyError` otherwise."""
        if role not in self.refs:
            self.refs[role] = open_ref(self.birth, role, self.schemas(role), self.links)
        return self.refs[role]


def open_ref(birth: Birth, role: str, schema: Schema, nursery: trio.Nursery, default: Inherited = NOTHING) -> ActorRef:
    """Return a ref from the actor born as `birth` to `role`. Raises `KeyError` when it has no grant for that."""
    for grant in birth.grants:
        if grant.role == role:
            return ActorRef(
                me=Identity(birth.role, birth.incarnation),
                callee=role,
                address=grant.address,
                token=grant.token,
                schema=schema,
                nursery=nursery,
                default=default,
            )
    raise KeyError(f"{birth.role} may not ask {role}")


class Host:
    """Runs one actor once."""

    def __init__(self, actor: Actor, birth: Birth) -> None:
        self._actor = actor
        self._birth = birth
        self._counters = Counters()
        self._links: set[CalleeLink] = set()
        self._pool: WorkerPool | None = None
        self._refs: dict[str, ActorRef] = {}
        self._stop_deadline = math.inf
        self._stopping = trio.Event()
        self._handlers = Handlers()
        self.serving = False
        """Whether it came as far as READY."""

    @property
    def stop_timeout(self) -> float:
        """Seconds that a stop may take, by configuration."""
        return self._birth.config.actor(self._birth.role).stop_timeout

    def _schema_of(self, role: str) -> Schema:
        return schema_of(self._actor.inboxes.get(role, ()), self._actor.items)

    def stop(self, deadline: float) -> None:
        """Take no more, let handlers finish until `deadline` (trio clock), then end. `run` returns."""
        self._stop_deadline = min(deadline, self._stop_deadline)
        self._counters.stopping = True
        self._stopping.set()

    def statistics(self) -> ActorStatistics:
        """Return this moment's figures."""
        extra: dict[str, Any] = {
            "calls": dict(self._counters.statistics()),
            "refs": [ref.statistics() for ref in self._refs.values()],
        }
        extra.update(self._actor.statistics())
        return ActorStatistics(
            in_flight=0 if self._pool is None else self._pool.running,
            queued=sum(link.channel.unsent for link in self._links),
            handled=self._counters.handled,
            failed=self._counters.failed,
            links=len(self._links),
            extra=msgspec.json.encode(extra),
        )

    async def run(self, task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED) -> None:
        """Live: from `start` to `stop`. `started` gets the addresses bound for the outside.

        Raises what ended the actor unasked: an error of `start`, `run` or a task in the context's nursery.
        """
        async with trio.open_nursery() as refs:
            async with trio.open_nursery() as nursery:
                context = ActorContext(self._birth, self._schema_of, nursery, refs, refs=self._refs)
                try:
                    addresses = await self._actor.start(context)
                    self._handlers = self._actor.handlers()
                    await self._serve(context, addresses, task_status)
                finally:
                    nursery.cancel_scope.cancel()
                    with trio.CancelScope(deadline=trio.current_time() + CLOSE_TIMEOUT, shield=True) as closing:
                        await self._actor.stop()
                    if closing.cancelled_caught:
                        log.error("%s did not close within %g s", self._birth.role, CLOSE_TIMEOUT)
            refs.cancel_scope.cancel()

    async def _serve(
        self, context: ActorContext, addresses: tuple[str, ...], task_status: trio.TaskStatus[tuple[str, ...]]
    ) -> None:
        async with trio.open_nursery() as links:
            async with trio.open_nursery() as calls:
                self._pool = WorkerPool(calls)
                accepting = trio.CancelScope()
                links.start_soon(self._accept, accepting, links)
                context.nursery.start_soon(self._actor.run)
                self.serving = True
                task_status.started(addresses)
                await self._stopping.wait()
                accepting.cancel()
                context.stopping.set()
                with trio.move_on_at(self._stop_deadline):
                    await self._pool.wait_idle()
                    for link in tuple(self._links):
                        await link.channel.flushed()
                calls.cancel_scope.cancel()
            links.cancel_scope.cancel()

    async def _accept(self, scope: trio.CancelScope, nursery: trio.Nursery) -> None:
        listener = self._birth.sockets["link"]
        listener.setblocking(False)
        # Who connects after the scope's end waits in the backlog for the next incarnation.
        with scope:
            while True:
                await trio.lowlevel.wait_readable(listener)
                if (sock := await self._accepted(listener)) is None:
                    continue
                if len(self._links) >= MAX_LINKS:
                    self._counters.refused_links += 1
                    sock.close()
                else:
                    nursery.start_soon(self._link, sock)

    async def _accepted(self, listener: socket) -> socket | None:
        try:
            return listener.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            log.warning("%s cannot accept a link: %s", self._birth.role, error)
            await trio.sleep(0.1)
            return None

    async def _link(self, sock: socket) -> None:
        birth = self._birth
        schema = self._schema_of(birth.role)
        credit = birth.config.actor(birth.role).credit
        me = Identity(birth.role, birth.incarnation)
        try:
            caller, channel = await admit(sock, me=me, schema=schema, admissions=birth.admissions, credit=credit)
        except (Refused, ProtocolViolation) as error:
            self._counters.refused_links += 1
            log.warning("%s refuses a link: %s", birth.role, error.message)
            return
        assert self._pool is not None
        link = CalleeLink(
            channel,
            caller=caller,
            role=birth.role,
            handlers=self._handlers,
            credit=credit,
            schema=schema,
            pool=self._pool,
            counters=self._counters,
        )
        self._links.add(link)
        try:
            await link.serve()
        finally:
            self._links.discard(link)

"""An actor as a process of its own: what runs after the fork (or exec) that made it.

The control socket is its life line. It answers `Start`, `Heartbeat` and `Stop` there; when it closes, the supervisor is
dead and the actor ends by itself: gracefully within its `stop_timeout`, then by SIGALRM, which also ends a handler that
ignores cancellation or blocks the loop.
"""

from __future__ import annotations

import importlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Final

import trio

from delta_actors.runtime.actor import Actor, Call, Handlers
from delta_actors.runtime.birth import Birth
from delta_actors.runtime.control import CONTROL, EXIT_CONFIGURATION
from delta_actors.runtime.failures import sole
from delta_actors.runtime.greeting import Identity, admit
from delta_actors.runtime.host import CLOSE_TIMEOUT, Host
from delta_actors.runtime.schema import control_schema
from delta_actors.runtime.serving import CalleeLink, Counters
from delta_actors.runtime.workers import WorkerPool
from delta_protocol.errors import DeltaError, Internal, Invalid, Refused
from delta_protocol.wire.control import ActorStatistics, Heartbeat, Start, Started, Stop
from delta_protocol.wire.message import Done, Role, role_named

log = logging.getLogger("delta.actors")

EXIT_DONE: Final = 0
EXIT_CRASHED: Final = 70

REPLY_TIME = 0.25
"""Seconds of a `Stop`'s deadline kept back for its own reply."""

CONTROL_CREDIT = 8


def main(control_fd: int, link_fd: int, extra_fds: Sequence[int] = ()) -> int:
    """Be the actor that the supervisor names in `Start`; return the exit code when it has ended.

    `link_fd` is the listening socket for other actors, `extra_fds` those for the outside in the order of
    `Start.sockets`. All descriptors are taken over.
    """
    life = _Life(socket(fileno=control_fd), [socket(fileno=fd) for fd in (link_fd, *extra_fds)])
    try:
        trio.run(life.run)
    except Exception as error:
        log.critical("%s crashed", life.name, exc_info=error)
        return EXIT_CRASHED if life.exit_code == EXIT_DONE else life.exit_code
    return life.exit_code


def load_actor(role: str, factory: str = "") -> Actor:
    """Return a new actor by its factory's name, by convention `delta_actors.ROLE:RoleActor`. Raises `Invalid`."""
    name = factory or f"delta_actors.{role}:{role.capitalize()}Actor"
    module, _, attribute = name.partition(":")
    try:
        actor = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise Invalid(f"there is no actor {name!r}: {error}") from error
    if not isinstance(actor, Actor):
        raise Invalid(f"{name!r} is a {type(actor).__name__}, not an actor")
    return actor


class _Life:
    """One process's life, from control greeting to exit."""

    def __init__(self, control: socket, sockets: Sequence[socket]) -> None:
        self.exit_code: int = EXIT_DONE
        self.name = "an actor that was not started"
        self._control = control
        self._sockets = sockets
        self._host: Host | None = None
        self._stop_timeout = 5.0
        self._ended = trio.Event()
        self._finish = trio.Event()

    async def run(self) -> None:
        """Live until stopped, crashed or orphaned. Raises what the actor died of."""
        me = Identity(CONTROL)
        caller, channel = await admit(
            self._control, me=me, schema=control_schema(), admissions=None, credit=CONTROL_CREDIT
        )
        if caller != Role.SUPERVISOR:
            channel.close()
            raise Refused(f"the control socket is the supervisor's, not {caller}'s")
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch_signals)
            async with trio.open_nursery() as calls:
                self._nursery = nursery
                link = CalleeLink(
                    channel,
                    caller=caller,
                    role=CONTROL,
                    handlers=self._handlers(),
                    credit=CONTROL_CREDIT,
                    schema=control_schema(),
                    pool=WorkerPool(calls),
                    counters=Counters(),
                )
                calls.start_soon(self._until_orphaned, link)
                await self._finish.wait()
                with trio.move_on_after(REPLY_TIME):
                    await link.idle()
                    await channel.flushed()
                calls.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    def _handlers(self) -> Handlers:
        handlers = Handlers()
        handlers.ask(Start, self._start)
        handlers.ask_inline(Heartbeat, self._heartbeat)
        # A supervisor that dies while it waits for Stop changes nothing about stopping.
        handlers.ask(Stop, self._stop, keep_when_lost=True)
        return handlers

    async def _until_orphaned(self, link: CalleeLink) -> None:
        await link.serve()
        if not self._ended.is_set():
            log.warning("%s: the supervisor is gone; ending", self.name)
        await self._end(self._stop_timeout)
        self._finish.set()

    async def _watch_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                await self._end(self._stop_timeout)
                self._finish.set()

    async def _start(self, start: Start, _call: Call) -> Started:
        if self._host is not None:
            raise Refused(f"{self.name} is started already")
        self.name = start.role
        try:
            birth = self._birth(start)
            host = self._host = Host(load_actor(start.role, start.factory), birth)
            return Started(await self._nursery.start(self._live, host))
        except Exception as error:
            cause = sole(error)
            self.exit_code = EXIT_CONFIGURATION if isinstance(cause, Invalid | Refused) else EXIT_CRASHED
            self._finish.set()
            if isinstance(cause, DeltaError):
                raise cause from None
            log.critical("%s could not start", start.role, exc_info=error)
            raise Internal(f"{start.role} could not start: {type(cause).__name__}: {cause}") from error

    def _birth(self, start: Start) -> Birth:
        if len(start.sockets) != len(self._sockets) or start.sockets[:1] != ("link",):
            raise Invalid(f"sockets {start.sockets} named, {len(self._sockets)} given")
        self._stop_timeout = start.config.actor(start.role).stop_timeout
        return Birth(
            role=role_named(start.role),
            incarnation=start.incarnation,
            config=start.config,
            state_dir=Path(start.state_dir),
            runtime_dir=Path(start.runtime_dir),
            sockets=dict(zip(start.sockets, self._sockets, strict=True)),
            grants=start.grants,
            admissions=start.admissions,
        )

    async def _live(self, host: Host, task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
        try:
            await host.run(task_status)
        except Exception:
            self.exit_code = EXIT_CRASHED
            raise
        finally:
            self._ended.set()

    def _heartbeat(self, _heartbeat: Heartbeat, _call: Call) -> ActorStatistics:
        return ActorStatistics() if self._host is None else self._host.statistics()

    async def _stop(self, _stop: Stop, call: Call) -> Done:
        left = call.deadline - trio.current_time() - REPLY_TIME
        await self._end(min(left, self._stop_timeout))
        self._finish.set()
        return Done()

    async def _end(self, seconds: float) -> None:
        """Stop the host within `seconds`, and make sure that the process ends soon after, whatever happens."""
        seconds = max(seconds, 0.0)
        signal.setitimer(signal.ITIMER_REAL, seconds + CLOSE_TIMEOUT + 1.0)
        if self._host is not None:
            self._host.stop(trio.current_time() + seconds)
            await self._ended.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), [int(fd) for fd in sys.argv[3:]]))

"""One child of a supervisor: what it is (`Child`), and one of its lives (`Incarnation`)."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import trio

from delta_actors.runtime.control import EXIT_CONFIGURATION, Control, open_control
from delta_protocol.config import ActorConfig, StackConfig
from delta_protocol.errors import ActorCrashed, DeltaError
from delta_protocol.supervision import Restart
from delta_protocol.wire.control import ActorStatistics, Admission, Grant, Heartbeat, Start, Stop
from delta_protocol.wire.message import Role
from delta_supervisor.reap import Ended, Process
from delta_supervisor.spawn import Zygote

TERM_TIMEOUT = 1.0
"""Seconds between SIGTERM and SIGKILL for a child that did not stop when asked."""


_LAST_WORDS = 0.25
"""Seconds to hear what an ended child had said about its end."""


class State(StrEnum):
    """Where a child is. A lazy child that nobody used yet is `exited`."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    EXITED = "exited"
    BACKOFF = "backoff"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Child:
    """What is supervised. `link` is the listening socket for other actors; `sockets` are those for the outside.

    `factory` is `package.module:name`; empty for the stack's own actor of that role. A `lazy` child starts when
    somebody first connects to its `link`.
    """

    role: Role
    link: socket.socket
    factory: str = ""
    restart: Restart = Restart.PERMANENT
    lazy: bool = False
    sockets: Mapping[str, socket.socket] = field(default_factory=dict[str, socket.socket])
    grants: tuple[Grant, ...] = ()
    admissions: tuple[Admission, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """How a life ended. `clean`: by itself with code 0. `cause` is for people.

    `refusal`: why it will not start however often it is tried, in the actor's own words.
    """

    clean: bool
    cause: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every child of one supervisor is given."""

    config: StackConfig
    state_dir: Path
    runtime_dir: Path
    zygote: Zygote


class Incarnation:
    """One life of a child: from its fork to its end. `on_change` is called whenever `state` or `pid` changed."""

    def __init__(self, child: Child, number: int, given: Surroundings, on_change: Callable[[], None]) -> None:
        self._child = child
        self._given = given
        self._settings: ActorConfig = given.config.actor(child.role)
        self._on_change = on_change
        self._stop = trio.Event()
        self._serving = trio.CancelScope()
        self._fault = ""
        self._stuck = False
        self._heard = trio.Event()
        self.number = number
        self.state = State.STARTING
        self.process: Process | None = None
        self.addresses: tuple[str, ...] = ()
        self.statistics = ActorStatistics()
        self.last_heartbeat = trio.current_time()
        """On trio's clock: when it last proved to be alive."""

    def stop(self) -> None:
        """Ask it to end; `run` returns within the child's stop timeout and two seconds more."""
        self._stop.set()
        self._serving.cancel()

    async def run(self) -> Exit:
        """Start it, watch over it, and return how it ended. The process is reaped in every case."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                outside = [given.fileno() for given in self._child.sockets.values()]
                descriptors = [theirs.fileno(), self._child.link.fileno(), *outside]
                self.process = await self._given.zygote.spawn(str(self._child.role), descriptors)
        except DeltaError as error:
            ours.close()
            return Exit(False, error.message)
        except BaseException:
            ours.close()
            raise
        self._on_change()
        try:
            ended = await self._lived(ours)
        finally:
            with trio.CancelScope(shield=True):
                self.process.signal_group(signal.SIGKILL)
                await self.process.wait()
            self.process.close()
            self._set(State.EXITED)
        cause = f"{ended.describe()}: {self._fault}" if self._fault else ended.describe()
        refusal = (self._fault or cause) if ended.code == EXIT_CONFIGURATION else ""
        return Exit(ended.clean and not self._fault, cause, refusal)

    async def _lived(self, ours: socket.socket) -> Ended:
        assert self.process is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, ours)
            ended = await self.process.wait()
            with trio.move_on_after(_LAST_WORDS):
                await self._heard.wait()
            nursery.cancel_scope.cancel()
        return ended

    async def _watch(self, ours: socket.socket) -> None:
        """Be the parent. Returning is not the end: the process is, and it cancels this."""
        try:
            async with open_control(ours) as control:
                with self._serving:
                    if await self._started(control):
                        await self._beat(control)
                if self._stop.is_set():
                    await self._ended(control)
        except* ActorCrashed:
            # It is gone or going; how it ended is what the process says.
            pass
        self._heard.set()
        assert self.process is not None
        if not self._stuck:
            await trio.sleep(TERM_TIMEOUT)
            self.process.signal_group(signal.SIGTERM)
            await trio.sleep(TERM_TIMEOUT)
        self.process.signal_group(signal.SIGKILL)

    async def _started(self, control: Control) -> bool:
        child, given = self._child, self._given
        start = Start(
            role=child.role,
            incarnation=self.number,
            config=given.config,
            state_dir=str(given.state_dir),
            runtime_dir=str(given.runtime_dir),
            sockets=("link", *child.sockets),
            grants=child.grants,
            admissions=child.admissions,
            factory=child.factory,
        )
        try:
            with trio.fail_after(self._settings.start_timeout):
                started = await control.ask(start)
        except trio.TooSlowError:
            self._fault = f"not ready within {self._settings.start_timeout:g} s"
            self._stuck = True
            return False
        except ActorCrashed:
            raise
        except DeltaError as error:
            self._fault = error.message
            return False
        self.addresses = started.addresses
        self.last_heartbeat = trio.current_time()
        self._set(State.READY)
        return True

    async def _beat(self, control: Control) -> None:
        """Ask for a sign of life until cancelled; a missed one is a death."""
        while True:
            with trio.move_on_after(self._settings.heartbeat_timeout) as waiting:
                self.statistics = await control.ask(Heartbeat())
                self.last_heartbeat = trio.current_time()
            if waiting.cancelled_caught:
                self._fault = f"no heartbeat within {self._settings.heartbeat_timeout:g} s"
                self._stuck = True
                return
            await trio.sleep(self._settings.heartbeat)

    async def _ended(self, control: Control) -> None:
        self._set(State.STOPPING)
        with trio.move_on_after(self._settings.stop_timeout) as asking:
            await control.ask(Stop())
            await control.closed.wait()
        if asking.cancelled_caught:
            self._fault = f"did not stop within {self._settings.stop_timeout:g} s"

    def _set(self, state: State) -> None:
        self.state = state
        self._on_change()

"""One interface over both placements, so that every test of links runs against tasks and against processes."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import trio

from delta_actors.runtime import Actor, Ref, open_actors
from delta_actors.runtime.birth import Birth, listen, make_credentials
from delta_actors.runtime.control import Control, open_control
from delta_actors.runtime.host import open_ref
from delta_actors.runtime.schema import schema_of
from delta_protocol.supervision import Backoff, Intensity
from delta_protocol.wire.control import Start
from tests.runtime import actors

ROOT = Path(__file__).parents[2]


class Running(Protocol):
    """Actors under test."""

    def ref(self, role: str, *, as_: str, nursery: trio.Nursery | None = None) -> Ref: ...

    async def kill(self, role: str) -> None:
        """End it abruptly; a successor is on its way when this returns."""
        ...


@asynccontextmanager
async def tasks(state_dir: Path, classes: Mapping[str, type[Actor]]) -> AsyncIterator[Running]:
    async with open_actors(
        classes,
        config=actors.config(),
        state_dir=state_dir,
        asks=actors.ASKS,
        intensity=Intensity(1000),
        backoff=Backoff(0.01, 0.05),
    ) as system:

        class TaskSystem:
            def ref(self, role: str, *, as_: str, nursery: trio.Nursery | None = None) -> Ref:
                return system.ref(role, as_=as_, nursery=nursery)

            async def kill(self, role: str) -> None:
                system.kill(role)

        yield TaskSystem()


class Processes:
    """A parent of actor processes without any supervision of its own."""

    def __init__(self, nursery: trio.Nursery, state_dir: Path, classes: Mapping[str, type[Actor]]) -> None:
        self.nursery = nursery
        self.state_dir = state_dir
        self.classes = dict[str, type[Actor]]()
        self.runtime_dir = Path(tempfile.mkdtemp(prefix="delta-test-"))
        self.listeners: dict[str, socket.socket] = {}
        for role, actor in classes.items():
            self.add(role, actor)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.controls: dict[str, Control] = {}
        self.incarnations: dict[str, int] = {}

    def add(self, role: str, actor: type[Actor]) -> None:
        """Make room for an actor, without starting it."""
        self.classes[role] = actor
        self.listeners[role] = listen(self.runtime_dir / f"{role}.sock")
        addresses: dict[str, str] = {role: one.getsockname() for role, one in self.listeners.items()}
        self.credentials = make_credentials(addresses, actors.ASKS)

    def birth(self, role: str) -> Birth:
        mine = self.credentials[role]
        return Birth(role, 0, actors.config(), self.state_dir, self.runtime_dir, {}, mine.grants, mine.admissions)

    def ref(self, role: str, *, as_: str, nursery: trio.Nursery | None = None) -> Ref:
        schema = schema_of(actors.INBOXES[role], self.classes[role].items)
        return open_ref(self.birth(as_), role, schema, nursery or self.nursery)

    async def kill(self, role: str) -> None:
        self.processes[role].kill()
        await trio.to_thread.run_sync(self.processes[role].wait)
        await self.start(role)

    def start_message(self, role: str) -> Start:
        number = self.incarnations[role] = self.incarnations.get(role, 0) + 1
        mine = self.credentials[role]
        factory = self.classes[role]
        return Start(
            role,
            number,
            actors.config(),
            str(self.state_dir),
            str(self.runtime_dir),
            ("link",),
            mine.grants,
            mine.admissions,
            f"{factory.__module__}:{factory.__qualname__}",
        )

    def spawn(self, role: str) -> socket.socket:
        """Start the process; return our end of its control socket."""
        ours, theirs = socket.socketpair()
        fds = [theirs.fileno(), self.listeners[role].fileno()]
        command = [sys.executable, "-m", "delta_actors.runtime.process", *map(str, fds)]
        self.processes[role] = subprocess.Popen(command, pass_fds=fds, cwd=ROOT, stderr=subprocess.DEVNULL)
        theirs.close()
        return ours

    async def start(self, role: str) -> None:
        await self.nursery.start(self.live, role, self.spawn(role))

    async def live(
        self, role: str, ours: socket.socket, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with open_control(ours) as control:
            self.controls[role] = control
            await control.ask(self.start_message(role))
            task_status.started()
            await control.closed.wait()

    async def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            await trio.to_thread.run_sync(process.wait)
        for listener in self.listeners.values():
            listener.close()


@asynccontextmanager
async def processes(state_dir: Path, classes: Mapping[str, type[Actor]]) -> AsyncIterator[Processes]:
    async with trio.open_nursery() as nursery:
        system = Processes(nursery, state_dir, classes)
        try:
            for role in classes:
                await system.start(role)
            yield system
        finally:
            with trio.CancelScope(shield=True):
                await system.close()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def running(
    placement: str, state_dir: Path, classes: Mapping[str, type[Actor]] | None = None
) -> AsyncIterator[Running]:
    """Run the test actors (the worker, unless others are named) in the given placement."""
    opened = {"task": tasks, "process": processes}[placement](state_dir, classes or {actors.WORKER: actors.WorkerActor})
    async with opened as system:
        yield system

"""The sandbox actor: a pool of jailed workers, and the registry's catalogue by number."""

from __future__ import annotations

from typing import Any, ClassVar

import trio

from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_actors.sandbox.pool import Pool
from delta_actors.sandbox.program import ProgramRun
from delta_protocol.catalogue.model import Catalogue
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import GetCatalogue
from delta_protocol.wire.sandbox import ProgramOutcome, RunProgram

_CATALOGUES = 8
"""How many snapshots are kept; a program names the one it was written for."""


class SandboxActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.SANDBOX

    def __init__(self) -> None:
        self._context: Context | None = None
        self._catalogues: dict[int, Catalogue] = {}
        self._pool: Pool | None = None
        self._has_pool = trio.Event()
        self._programs = 0
        self._running = 0
        self._failed = 0

    async def start(self, context: Context) -> tuple[str, ...]:
        """Begin to serve; the first compilation and the workers come up beside it, programs wait for them."""
        self._context = context
        return ()

    def handlers(self) -> Handlers:
        """Running programs."""
        handlers = Handlers()
        handlers.ask(RunProgram, self._run_program)
        return handlers

    async def run(self) -> None:
        """Keep workers warm; the guest is compiled first if it was not yet."""
        context = self._opened
        limits = context.config.limits
        directory = context.state_dir / "sandbox"
        self._pool = Pool(directory, size=limits.workers, memory=limits.program.memory, cpu=limits.program.cpu)
        self._has_pool.set()
        await self._pool.run()

    def statistics(self) -> dict[str, Any]:
        """Programs and workers."""
        pool = {} if self._pool is None else self._pool.statistics()
        return {"programs": self._programs, "running": self._running, "failed": self._failed, **pool}

    @property
    def _opened(self) -> Context:
        assert self._context is not None
        return self._context

    async def _run_program(self, request: RunProgram, call: Call) -> ProgramOutcome:
        catalogue = await self._catalogue(request.catalogue)
        await self._has_pool.wait()
        assert self._pool is not None
        self._programs += 1
        self._running += 1
        try:
            run = ProgramRun(request, catalogue, call, self._opened.ref(Role.REGISTRY))
            outcome = await run.outcome(self._pool)
        finally:
            self._running -= 1
        self._failed += outcome.error is not None
        return outcome

    async def _catalogue(self, number: int) -> Catalogue:
        known = self._catalogues.get(number)
        if known is None:
            known = await self._opened.ref(Role.REGISTRY).ask(GetCatalogue(number))
            self._catalogues[number] = known
            while len(self._catalogues) > _CATALOGUES:
                del self._catalogues[min(self._catalogues)]
        return known

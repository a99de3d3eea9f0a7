"""Stores and serves long values; the disk work runs in one thread at a time."""

from __future__ import annotations

from typing import Any, ClassVar

import trio

from delta_actors.results.store import ResultStore
from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_protocol.answers.parts import part
from delta_protocol.codecs import exact_json
from delta_protocol.wire.message import Json, Role
from delta_protocol.wire.results import LoadResult, StoredResult, StoreResult


class ResultsActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.RESULTS

    def __init__(self) -> None:
        self._one_at_a_time = trio.CapacityLimiter(1)
        self._store: ResultStore | None = None

    async def start(self, context: Context) -> tuple[str, ...]:
        """Open the folder."""
        limits = context.config.limits
        self._store = ResultStore(
            context.state_dir / "results", max_bytes=limits.results_bytes, max_age=limits.results_hours * 3600
        )
        return ()

    def handlers(self) -> Handlers:
        """Storing and loading."""
        handlers = Handlers()
        handlers.ask(StoreResult, self._save)
        handlers.ask(LoadResult, self._load)
        return handlers

    async def stop(self) -> None:
        """Close the folder."""
        if self._store is not None:
            self._store.close()

    def statistics(self) -> dict[str, Any]:
        """How much is kept."""
        return self._store.statistics() if self._store is not None else {}

    async def _save(self, request: StoreResult, call: Call) -> StoredResult:
        return await trio.to_thread.run_sync(
            self._opened.save, call.principal.id, request.value, limiter=self._one_at_a_time
        )

    async def _load(self, request: LoadResult, call: Call) -> Json:
        return await trio.to_thread.run_sync(
            _part_of, self._opened, call.principal.id, request, limiter=self._one_at_a_time
        )

    @property
    def _opened(self) -> ResultStore:
        assert self._store is not None
        return self._store


def _part_of(store: ResultStore, principal: str, request: LoadResult) -> Json:
    text = store.load(principal, request.id)
    if not request.path and request.start is None and request.end is None:
        return text
    value = exact_json.decode(text, what=request.id)
    return exact_json.encode(part(value, request.path, request.start, request.end))

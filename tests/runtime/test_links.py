from pathlib import Path

import pytest
import trio

from delta_actors.runtime import Actor, Call, Context, Handlers, open_actors
from delta_protocol.errors import NotFound
from delta_protocol.wire.message import Json, Role
from delta_protocol.wire.results import LoadResult, StoredResult, StoreResult


class Results(Actor):
    role = Role.RESULTS

    async def start(self, context: Context) -> tuple[str, ...]:
        self.values: dict[str, Json] = {}
        return ()

    def handlers(self) -> Handlers:
        handlers = Handlers()
        handlers.ask(StoreResult, self.store)
        handlers.ask_inline(LoadResult, self.load)
        return handlers

    async def store(self, request: StoreResult, call: Call) -> StoredResult:
        await trio.lowlevel.checkpoint()
        name = f"r_{len(self.values)}"
        self.values[name] = request.value
        return StoredResult(name, len(request.value))

    def load(self, request: LoadResult, call: Call) -> Json:
        if request.id not in self.values:
            raise NotFound("no such result", nearest=[])
        return self.values[request.id]


async def test_asks_are_answered(tmp_path: Path) -> None:
    async with open_actors({Role.RESULTS: Results}, state_dir=tmp_path) as system:
        results = system.ref(Role.RESULTS, as_=Role.TRANSPORT)
        stored = await results.ask(StoreResult(b"7" * 300_000))
        assert stored.size == 300_000
        assert await results.ask(LoadResult(stored.id)) == b"7" * 300_000
        with pytest.raises(NotFound):
            await results.ask(LoadResult("r_none"))

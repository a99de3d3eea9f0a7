"""A journal that kills its own process at a chosen point: run by `test_kill.py` in a process of its own.

Points are counted in order: before and after every durable step, before and after every write.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import trio

from delta_actors.journal.sqlite import SqliteStore
from delta_protocol.changes.plan import build_plan
from delta_protocol.wire.journal import Apply, Begin, Propose
from delta_protocol.wire.registry import ToolReply
from tests.changes.catalogues import catalogue
from tests.journal.stand import NULL, closing, standing
from tests.journal.world import World


class KeptWorld(World):
    """A world that outlives the process: written to a file with every write."""

    path: Path

    def write(self, tool: str, arguments: dict[str, Any]) -> ToolReply:
        point()
        reply = super().write(tool, arguments)
        self.path.write_text(json.dumps([self.tickets, self.next_id, [name for name, _ in self.writes]]))
        point()
        return reply


_left = 0


def point() -> None:
    """Count down, and die at zero."""
    global _left
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    _left -= 1


class DyingStore(SqliteStore):
    """Dies right before or right after something became durable."""

    async def move(self, *args: Any, **kwargs: Any) -> Any:
        point()
        record = await super().move(*args, **kwargs)
        point()
        return record


async def main(folder: Path, world: KeptWorld) -> None:
    async with standing(folder, world) as stand:
        begun = await stand.client.ask(Begin("c1", "x", "{}", 7, 0, 0))
        await stand.client.ask(Propose(begun.delta, build_plan(closing(), catalogue()), NULL))
        (folder / "delta").write_text(begun.delta)
        await stand.client.ask(Apply(begun.delta))


if __name__ == "__main__":
    import delta_actors.journal.actor as actor

    actor.SqliteStore = DyingStore  # type: ignore[attr-defined]
    _left = int(sys.argv[2])
    kept = KeptWorld()
    kept.path = Path(sys.argv[1]) / "world.json"
    kept.path.write_text(json.dumps([kept.tickets, kept.next_id, []]))
    trio.run(main, Path(sys.argv[1]), kept)

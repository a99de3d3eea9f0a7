"""The store over SQLite: compare-and-set, group commit, retention, and files of other programs."""

from __future__ import annotations

import sqlite3
import time
import zlib
from pathlib import Path

import msgspec
import pytest
import trio

from delta_actors.journal.sqlite import SqliteStore
from delta_actors.journal.store import CallRecord, Fixed, Move, Record
from delta_protocol.changes.model import CallState, DeltaState, Plan, PlannedCall, Reversibility, Value
from delta_protocol.changes.steps import CallChange
from delta_protocol.errors import Internal, NotFound, Refused


def record(name: str, created: float = 0.0, state: DeltaState = DeltaState.PLANNED) -> Record:
    return Record(name, state, "eva", "c1", "f", created, created, calls=(CallRecord(1),))


def to(state: DeltaState, *expect: DeltaState, **more: object) -> Move:
    return Move(time.time(), frozenset(expect), state, **more)  # type: ignore[arg-type]


async def test_of_many_moves_at_once_one_wins_and_they_share_commits(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.insert(record("d_a"))
    won: list[int] = []
    lost: list[str] = []

    async def move(number: int) -> None:
        try:
            await store.move("d_a", to(DeltaState.APPLYING, DeltaState.PLANNED))
            won.append(number)
        except Refused as error:
            lost.append(error.detail["state"])

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(move, number)
    assert len(won) == 1
    assert lost == ["applying"] * 49
    statistics = store.statistics()
    assert statistics["work"] == 51
    assert statistics["commits"] < 51
    await store.close()


async def test_a_move_that_the_table_does_not_allow_stores_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.insert(record("d_a"))
    acked = {1: CallChange(CallState.ACKED)}
    with pytest.raises(Refused, match="call 1 of d_a is planned"):
        await store.move("d_a", to(DeltaState.APPLYING, DeltaState.PLANNED, calls=acked))
    with pytest.raises(Refused):
        await store.move("d_a", to(DeltaState.UNDONE, DeltaState.PLANNED))
    with pytest.raises(NotFound):
        await store.move("d_b", to(DeltaState.APPLYING, DeltaState.PLANNED))
    kept = await store.get("d_a")
    assert kept is not None
    assert (kept.state, kept.calls[0].state) == (DeltaState.PLANNED, CallState.PLANNED)
    assert len(await store.events("d_a")) == 1
    await store.close()


async def test_old_deltas_go_and_pending_ones_stay(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.insert(record("d_old", 1.0, DeltaState.APPLIED))
    await store.insert(record("d_waits", 2.0, DeltaState.WAITING))
    await store.insert(record("d_new", 100.0, DeltaState.APPLIED))
    assert await store.prune(50.0, 10) == 1
    assert [each.id for each in await store.page(None, None, 10)] == ["d_new", "d_waits"]
    assert [each.id for each in await store.page(None, "d_new", 10)] == ["d_waits"]
    await store.close()


async def test_a_file_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(Refused, match="written by a newer program"):
        SqliteStore(path)


async def test_deltas_of_an_older_program_are_read_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    calls = tuple(
        PlannedCall(number, "tickets", "update_ticket", Value(b"{}"), Reversibility.R1, "T-1", line=3)
        for number in (1, 2)
    )
    made = msgspec.structs.replace(record("d_old"), fixed=Fixed(code="1", plan=Plan(7, calls, hash="h"), redacted=True))
    store = SqliteStore(path)
    await store.insert(made)
    await store.close()
    with sqlite3.connect(path) as db:
        ((packed,),) = db.execute("SELECT fixed FROM delta").fetchall()
        fixed = msgspec.msgpack.decode(zlib.decompress(packed))
        # Schema 1 had one read, or none.
        for call, read in zip(fixed[5][1], (["get_ticket", [b"{}", []], []], None), strict=True):
            call[15] = read
        db.execute("UPDATE delta SET fixed = ?", (zlib.compress(msgspec.msgpack.encode(fixed)),))
        db.execute("PRAGMA user_version = 1")
    db.close()
    for _ in range(2):
        store = SqliteStore(path)
        kept = await store.get("d_old")
        await store.close()
        assert kept is not None
        assert kept.fixed == made.fixed


async def test_events_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    await store.insert(record("d_a"))
    await store.close()
    db = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        db.execute("UPDATE event SET note = 'x'")
    db.close()


async def test_a_cancelled_task_is_not_told_that_the_file_is_closed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.close()
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.get("d_a")
    assert scope.cancelled_caught
    with pytest.raises(Internal, match="closed"):
        await store.get("d_a")


async def test_work_that_contradicts_what_is_stored_fails_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.insert(record("d_twice"))
    refused: list[str] = []

    async def again() -> None:
        with pytest.raises(Internal, match="contradicts"):
            await store.insert(record("d_twice"))
        refused.append("d_twice")

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(store.insert, record(f"d_{number}"))
            nursery.start_soon(again)
    assert len(refused) == 20
    assert len(await store.page(None, None, 50)) == 21
    await store.close()

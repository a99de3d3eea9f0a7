"""The store over SQLite: an append-only event log, and beside it, in the same transaction, the state of deltas and
calls.

Before-images, results and programs are stored compressed.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from delta_actors.journal.store import CallRecord, Fixed, Move, Record
from delta_actors.journal.writer import Writer
from delta_protocol.changes.model import CallState, DeltaState, FieldConflict
from delta_protocol.changes.states import MOVING, PENDING, call_may_move, may_move
from delta_protocol.changes.steps import CallChange
from delta_protocol.errors import Internal, NotFound, Refused

_encode = msgspec.msgpack.Encoder().encode
_fixed = msgspec.msgpack.Decoder(Fixed)
_conflicts = msgspec.msgpack.Decoder(tuple[FieldConflict, ...])

_REPEATS = tuple(str(state) for state in (*PENDING, *MOVING, DeltaState.APPLIED))


def _pack(value: Any) -> bytes:  # noqa: ANN401 - any Struct
    return zlib.compress(_encode(value), 1)


def _squeezed(value: bytes | None) -> bytes | None:
    return None if value is None else zlib.compress(value, 1)


def _plain(value: bytes | None) -> bytes | None:
    return None if value is None else zlib.decompress(value)


class SqliteStore:
    """See `store.Store`."""

    def __init__(self, path: Path) -> None:
        self._writer = Writer(path)

    def statistics(self) -> dict[str, int]:
        """Return how many pieces of work were done in how many commits."""
        return {"commits": self._writer.commits, "work": self._writer.jobs}

    async def close(self) -> None:
        """Finish what was begun and close."""
        await self._writer.close()

    async def insert(self, record: Record) -> None:
        """Store a new delta with its calls."""
        await self._writer.run(lambda db: _insert(db, record))

    async def move(self, delta: str, *moves: Move, also: Mapping[str, Move] = {}) -> Record:
        """Make moves in one transaction; see `Store.move`."""

        def work(db: sqlite3.Connection) -> Record:
            for move in moves:
                _move(db, delta, move)
            for other, move in also.items():
                _move(db, other, move)
            return _existing(db, delta)

        return await self._writer.run(work)

    async def get(self, delta: str) -> Record | None:
        """Return one delta."""
        return await self._writer.run(lambda db: _get(db, delta))

    async def find_repeat(self, fingerprint: str, since: float) -> Record | None:
        """Return the newest repeatable delta of that fingerprint; see `Store.find_repeat`."""
        marks = ", ".join("?" * len(_REPEATS))
        query = (
            f"SELECT id FROM delta WHERE fingerprint = ? AND created >= ? AND state IN ({marks}) "  # noqa: S608 - marks only
            "ORDER BY created DESC LIMIT 1"
        )

        def work(db: sqlite3.Connection) -> Record | None:
            row = db.execute(query, (fingerprint, since, *_REPEATS)).fetchone()
            return None if row is None else _get(db, row[0])

        return await self._writer.run(work)

    async def page(self, principal: str | None, before: str | None, limit: int) -> tuple[Record, ...]:
        """Return deltas, newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM delta WHERE (?1 IS NULL OR principal = ?1) AND (?2 IS NULL OR (created, id) < "  # noqa: S608
            "(SELECT created, id FROM delta WHERE id = ?2)) ORDER BY created DESC, id DESC LIMIT ?3"
        )
        return await self._writer.run(
            lambda db: tuple(_whole(db, row) for row in db.execute(query, (principal, before, limit)).fetchall())
        )

    async def in_states(self, states: Iterable[DeltaState]) -> tuple[str, ...]:
        """Return the ids of all deltas in those states, oldest first."""
        names = tuple(str(state) for state in states)
        query = f"SELECT id FROM delta WHERE state IN ({', '.join('?' * len(names))}) ORDER BY created"  # noqa: S608
        return await self._writer.run(lambda db: tuple(row[0] for row in db.execute(query, names)))

    async def expired(self, now: float) -> tuple[str, ...]:
        """Return the ids of pending deltas whose time is over."""
        names = tuple(str(state) for state in PENDING)
        query = f"SELECT id FROM delta WHERE expires < ? AND state IN ({', '.join('?' * len(names))})"  # noqa: S608
        return await self._writer.run(lambda db: tuple(row[0] for row in db.execute(query, (now, *names))))

    async def ids_like(self, delta: str, principal: str | None) -> tuple[str, ...]:
        """Return recent ids, those with the same beginning first."""
        query = (
            "SELECT id FROM delta WHERE ?1 IS NULL OR principal = ?1 "
            "ORDER BY substr(id, 1, 5) = substr(?2, 1, 5) DESC, created DESC LIMIT 3"
        )
        return await self._writer.run(lambda db: tuple(row[0] for row in db.execute(query, (principal, delta))))

    async def prune(self, before: float, keep: int) -> int:
        """Drop ended deltas older than `before`, and the oldest beyond `keep`."""
        return await self._writer.run(lambda db: _prune(db, before, keep))

    async def events(self, delta: str) -> tuple[tuple[float, int | None, str, str], ...]:
        """Return the delta's history: (time, call number or None, old state, new state)."""
        query = "SELECT at, call, old, new FROM event WHERE delta = ? ORDER BY seq"
        return await self._writer.run(lambda db: tuple(db.execute(query, (delta,)).fetchall()))


_COLUMNS = (
    "id, state, principal, conversation, fingerprint, created, changed, fixed, duration, expires, undo_of, undone_by, "
    "reason, needs_person, approved_by, approved_at, lease, stage, conflicts"
)


def _insert(db: sqlite3.Connection, record: Record) -> None:
    worst = max((call.reversibility for call in record.calls), default="")
    db.execute(
        f"INSERT INTO delta ({_COLUMNS}, class, plan_hash) VALUES ({', '.join('?' * 21)})",  # noqa: S608 - constant names
        (
            record.id,
            record.state,
            record.principal,
            record.conversation,
            record.fingerprint,
            record.created,
            record.changed,
            _pack(record.fixed),
            record.duration,
            record.expires,
            record.undo_of,
            record.undone_by,
            record.reason,
            record.needs_person,
            record.approved_by,
            record.approved_at,
            record.lease,
            record.stage,
            _encode(record.conflicts),
            worst,
            record.fixed.plan.hash,
        ),
    )
    for call in record.calls:
        db.execute(
            "INSERT INTO call (delta, stage, number, state, class, probe, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (record.id, call.stage, call.number, call.state, call.reversibility, call.probe, call.detail),
        )
    _event(db, record.id, record.created, None, "", record.state)


def _event(db: sqlite3.Connection, delta: str, at: float, call: int | None, old: str, new: str, note: str = "") -> None:
    db.execute(
        "INSERT INTO event (delta, at, call, old, new, note) VALUES (?, ?, ?, ?, ?, ?)",
        (delta, at, call, old, new, note),
    )


def _move(db: sqlite3.Connection, delta: str, move: Move) -> None:
    row = db.execute("SELECT state FROM delta WHERE id = ?", (delta,)).fetchone()
    if row is None:
        raise NotFound(f"there is no delta {delta}", delta=delta)
    state = DeltaState(row[0])
    if state not in move.expect or (move.to not in {None, state} and not may_move(state, move.to or state)):
        raise Refused(f"{delta} is {state}", state=str(state), delta=delta)
    for number, change in move.calls.items():
        _move_call(db, delta, number, change, move.at)
    sets: dict[str, Any] = {"changed": move.at}
    if move.to is not None and move.to is not state:
        sets["state"] = str(move.to)
        _event(db, delta, move.at, None, state, move.to, move.note)
    for name in ("reason", "duration", "lease"):
        if getattr(move, name) is not None:
            sets[name] = getattr(move, name)
    if move.conflicts is not None:
        sets["conflicts"] = _encode(move.conflicts)
    if move.undone_by is not None:
        sets["undone_by"] = move.undone_by or None
    if move.approved_by is not None:
        sets |= {"approved_by": move.approved_by, "approved_at": move.at}
    assigned = ", ".join(f"{name} = ?" for name in sets)
    db.execute(f"UPDATE delta SET {assigned} WHERE id = ?", (*sets.values(), delta))  # noqa: S608 - names from this file


def _move_call(db: sqlite3.Connection, delta: str, number: int, change: CallChange, at: float) -> None:
    row = db.execute("SELECT state FROM call WHERE delta = ? AND number = ?", (delta, number)).fetchone()
    if row is None:
        raise Internal(f"{delta} has no call {number}")
    old = CallState(row[0])
    if old is not change.state and not call_may_move(old, change.state):
        raise Refused(f"call {number} of {delta} is {old}", state=str(old), delta=delta, call=number)
    probed = old is CallState.SENT and change.state in {CallState.ACKED, CallState.FAILED, CallState.UNKNOWN}
    db.execute(
        "UPDATE call SET state = ?, detail = coalesce(?, detail), result = coalesce(?, result), "
        "after = coalesce(?, after), probe = CASE WHEN ? THEN ? ELSE probe END WHERE delta = ? AND number = ?",
        (
            change.state,
            change.detail,
            _squeezed(change.result),
            _squeezed(change.after),
            probed,
            change.state,
            delta,
            number,
        ),
    )
    _event(db, delta, at, number, old, change.state, change.detail or "")


def _get(db: sqlite3.Connection, delta: str) -> Record | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM delta WHERE id = ?", (delta,)).fetchone()  # noqa: S608 - constant names
    return None if row is None else _whole(db, row)


def _whole(db: sqlite3.Connection, row: tuple[Any, ...]) -> Record:
    """Return the record of a row of `delta`, with its calls."""
    calls = db.execute(
        "SELECT number, state, detail, result, after, probe, stage, class FROM call WHERE delta = ? ORDER BY number",
        (row[0],),
    )
    return _record(
        row,
        tuple(
            CallRecord(number, CallState(state), detail, _plain(result), _plain(after), probe, stage, kind)
            for number, state, detail, result, after, probe, stage, kind in calls
        ),
    )


def _existing(db: sqlite3.Connection, delta: str) -> Record:
    record = _get(db, delta)
    if record is None:
        raise NotFound(f"there is no delta {delta}", delta=delta)
    return record


def _record(row: tuple[Any, ...], calls: tuple[CallRecord, ...]) -> Record:
    fixed = _fixed.decode(zlib.decompress(row[7]))
    return Record(
        id=row[0],
        state=DeltaState(row[1]),
        principal=row[2],
        conversation=row[3],
        fingerprint=row[4],
        created=row[5],
        changed=row[6],
        fixed=fixed,
        calls=calls,
        duration=row[8],
        expires=row[9],
        undo_of=row[10],
        undone_by=row[11],
        reason=row[12],
        needs_person=bool(row[13]),
        approved_by=row[14],
        approved_at=row[15],
        lease=row[16],
        stage=row[17],
        conflicts=_conflicts.decode(row[18]),
    )


def _prune(db: sqlite3.Connection, before: float, keep: int) -> int:
    moving = tuple(str(state) for state in (*PENDING, *MOVING, DeltaState.UNDOING, DeltaState.INTERRUPTED))
    query = (
        f"SELECT id FROM delta WHERE state NOT IN ({', '.join('?' * len(moving))}) AND (created < ? OR id NOT IN "  # noqa: S608
        "(SELECT id FROM delta ORDER BY created DESC LIMIT ?))"
    )
    old = [row[0] for row in db.execute(query, (*moving, before, keep))]
    for delta in old:
        db.execute("DELETE FROM delta WHERE id = ?", (delta,))
        db.execute("DELETE FROM event WHERE delta = ?", (delta,))
    return len(old)

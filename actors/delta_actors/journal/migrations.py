"""The schema of the journal's file, as numbered steps. A file written by a newer program is refused, never guessed
at.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from delta_protocol.errors import Refused

_PLAN, _CALLS, _BEFORE_FROM = 5, 1, 15
"""Places in the arrays that schema 1 stored."""


def _forget_reads(connection: sqlite3.Connection) -> None:
    """Leave out what each stored call said of the read for its before-image: one then, a list of them now.

    It only served until the plan was stored.
    """
    for row, packed in connection.execute("SELECT id, fixed FROM delta").fetchall():
        fixed: list[Any] = msgspec.msgpack.decode(zlib.decompress(packed))
        for call in fixed[_PLAN][_CALLS]:
            del call[_BEFORE_FROM:]
        kept = zlib.compress(msgspec.msgpack.encode(fixed), 1)
        connection.execute("UPDATE delta SET fixed = ? WHERE id = ?", (kept, row))


STEPS: tuple[str | Callable[[sqlite3.Connection], None], ...] = (
    """
    CREATE TABLE delta (
        id TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        stage INTEGER NOT NULL,
        lease TEXT NOT NULL,
        principal TEXT NOT NULL,
        conversation TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        class TEXT NOT NULL,
        created REAL NOT NULL,
        changed REAL NOT NULL,
        duration REAL NOT NULL,
        expires REAL,
        undo_of TEXT,
        undone_by TEXT,
        reason TEXT NOT NULL,
        needs_person INTEGER NOT NULL,
        plan_hash TEXT NOT NULL,
        approved_by TEXT NOT NULL,
        approved_at REAL,
        conflicts BLOB NOT NULL,
        fixed BLOB NOT NULL
    ) STRICT;
    CREATE INDEX delta_by_state ON delta(state);
    CREATE INDEX delta_by_fingerprint ON delta(fingerprint, created);
    CREATE INDEX delta_by_age ON delta(created);
    CREATE TABLE call (
        delta TEXT NOT NULL REFERENCES delta(id) ON DELETE CASCADE,
        stage INTEGER NOT NULL,
        number INTEGER NOT NULL,
        state TEXT NOT NULL,
        class TEXT NOT NULL,
        probe TEXT NOT NULL,
        detail TEXT NOT NULL,
        result BLOB,
        after BLOB,
        PRIMARY KEY (delta, stage, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        delta TEXT NOT NULL,
        at REAL NOT NULL,
        call INTEGER,
        old TEXT NOT NULL,
        new TEXT NOT NULL,
        note TEXT NOT NULL
    ) STRICT;
    CREATE INDEX event_by_delta ON event(delta);
    CREATE TRIGGER event_is_append_only BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
    """,
    _forget_reads,
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest schema, each step in a transaction. Raises `Refused` for a newer file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise Refused(
            f"journal.db was written by a newer program (schema {version}, this one knows {len(STEPS)}): "
            "use that program, or another state directory",
            schema=version,
        )
    for number, step in enumerate(STEPS[version:], version + 1):
        if isinstance(step, str):
            connection.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            step(connection)
            connection.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

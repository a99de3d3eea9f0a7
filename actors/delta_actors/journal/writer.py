"""One thread that owns a SQLite connection; what comes in while it commits shares the next commit (group commit)."""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import trio

from delta_actors.journal.migrations import migrate
from delta_protocol.errors import Internal, Invalid

ResultT = TypeVar("ResultT")
Work = Callable[[sqlite3.Connection], Any]

GROUP = 128
"""At most so many pieces of work share one commit."""


@dataclass(slots=True)
class _Job:
    work: Work
    done: Callable[[], object]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """The connection's only user. `run` returns once the work's effects are on disk."""

    def __init__(self, path: Path) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.commits = 0
        self.jobs = 0
        self._closed = False
        connection = _open(path)
        self._thread = threading.Thread(target=self._serve, args=(connection,), name="journal", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        """Do `work` in a transaction and return its result. What it raises undoes only its own part.

        Once handed over the work is done, cancelled or not: a durable step has no half way.
        """
        if self._closed:
            # Whoever was cancelled before the file was closed ends as cancelled, not as failed.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise Internal("the journal's file is closed")
        token, finished = trio.lowlevel.current_trio_token(), trio.Event()

        def done() -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(finished.set)

        job = _Job(work, done)
        self._jobs.put(job)
        with trio.CancelScope(shield=True):
            await finished.wait()
        if job.error is not None:
            raise job.error
        result: ResultT = job.result
        return result

    async def close(self) -> None:
        """Finish what was handed over, and close the connection."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)

    def _serve(self, connection: sqlite3.Connection) -> None:
        open_ = True
        while open_:
            job = self._jobs.get()
            group: list[_Job] = []
            while job is not None:
                group.append(job)
                if len(group) == GROUP or self._jobs.empty():
                    break
                job = self._jobs.get()
            open_ = job is not None
            if group:
                self._commit(connection, group)
        connection.close()

    def _commit(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in group:
                _do(connection, job)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Disk full, I/O error: nothing of the group is stored, and everybody in it must know.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for job in group:
                job.error = Internal(f"the journal could not be written: {error}")
        self.commits += 1
        self.jobs += len(group)
        for job in group:
            job.done()


def _do(connection: sqlite3.Connection, job: _Job) -> None:
    connection.execute("SAVEPOINT one")
    try:
        job.result = job.work(connection)
    except sqlite3.IntegrityError as error:
        # What it wanted contradicts what is stored: its own fault, and nobody else's in the group.
        connection.execute("ROLLBACK TO one")
        job.error = Internal(f"the journal refuses what contradicts it: {error}")
    except sqlite3.Error:
        raise
    except Exception as error:  # noqa: BLE001 - crosses to the waiting task as it is
        connection.execute("ROLLBACK TO one")
        job.error = error
    connection.execute("RELEASE one")


def _open(path: Path) -> sqlite3.Connection:
    # The file is made by us with the right mode, before SQLite would make it with the process's.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        raise Invalid(
            f"{path} is damaged ({error}): put a copy from a backup in its place, or move it away to begin a new "
            "journal (what was done before can then not be undone)",
            file=str(path),
        ) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    faults = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
    if faults != ["ok"]:
        raise sqlite3.DatabaseError(faults[0])
    migrate(connection)

"""Tickets and their comments in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delta_protocol.errors import Invalid, NotFound

PAGE = 20

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE ticket (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL,
    labels TEXT NOT NULL,
    assignee TEXT
) STRICT;
CREATE TABLE comment (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    ticket INTEGER NOT NULL REFERENCES ticket(number) ON DELETE CASCADE,
    body TEXT NOT NULL,
    author TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;
CREATE INDEX comment_by_ticket ON comment(ticket, number);
"""
_SEED: tuple[tuple[str, str, str, list[str], str | None, tuple[tuple[str, str], ...]], ...] = (
    (
        "Login broken",
        "Signing in with a password that holds a plus sign ends in an error page.",
        "open",
        ["bug"],
        "ada",
        (("ada", "Happens since 2.2."), ("lin", "The form decodes the password twice.")),
    ),
    ("Dark mode", "A dark theme that follows the system setting.", "open", ["feature"], None, ()),
    ("Export to CSV", "Lists should be downloadable.", "in_progress", ["feature", "export"], "lin", ()),
    (
        "Typo on the start page",
        '"Wellcome" should read "Welcome".',
        "closed",
        ["docs"],
        "ada",
        (("ada", "Fixed in 2.1."),),
    ),
    ("Slow search", "Searching ten thousand tickets takes four seconds.", "open", ["bug", "speed"], "sam", ()),
)
_SEEDED_AT = "2026-01-05T09:00:00Z"


class TicketStore:
    """One open database; not for use from several threads at once.

    Tickets and comments go in and out as plain JSON objects: a ticket is
    `{id, title, body, status, labels[], assignee, comments[{id, body, author, created}]}`.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._prepare()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def get(self, ticket_id: str) -> dict[str, Any]:
        """Return the ticket. Raises `NotFound`."""
        number = _number("T", ticket_id)
        row = self._db.execute(
            "SELECT number, title, body, status, labels, assignee FROM ticket WHERE number = ?", (number,)
        ).fetchone()
        if row is None:
            raise NotFound(f"there is no ticket {ticket_id}")
        return self._ticket(row)

    def page(
        self, status: str | None = None, assignee: str | None = None, cursor: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of tickets in the order of their ids, and the cursor of the next page if there is one."""
        after = _number("T", cursor) if cursor else 0
        rows = self._db.execute(
            "SELECT number, title, body, status, labels, assignee FROM ticket WHERE number > ?"
            " AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR assignee = ?3) ORDER BY number LIMIT ?4",
            (after, status, assignee, PAGE + 1),
        ).fetchall()
        tickets = [self._ticket(row) for row in rows[:PAGE]]
        return tickets, tickets[-1]["id"] if len(rows) > PAGE else None

    def create(self, title: str, body: str, status: str, labels: list[str], assignee: str | None) -> dict[str, Any]:
        """Add a ticket and return it."""
        number = self._insert_ticket(title, body, status, labels, assignee)
        return self.get(f"T-{number}")

    def update(self, ticket_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Set the given fields (`title`, `body`, `status`, `labels`, `assignee`) and return the ticket."""
        ticket = self.get(ticket_id)
        ticket.update(fields)
        self._db.execute(
            "UPDATE ticket SET title = ?, body = ?, status = ?, labels = ?, assignee = ? WHERE number = ?",
            (
                ticket["title"],
                ticket["body"],
                ticket["status"],
                json.dumps(ticket["labels"]),
                ticket["assignee"],
                _number("T", ticket_id),
            ),
        )
        return self.get(ticket_id)

    def delete(self, ticket_id: str) -> str:
        """Remove the ticket and its comments; return its id."""
        self.get(ticket_id)
        self._db.execute("DELETE FROM ticket WHERE number = ?", (_number("T", ticket_id),))
        return ticket_id

    def add_comment(self, ticket_id: str, body: str, author: str = "you") -> dict[str, Any]:
        """Add a comment and return it."""
        self.get(ticket_id)
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        number = self._insert_comment(_number("T", ticket_id), body, author, created)
        return {"id": f"C-{number}", "body": body, "author": author, "created": created}

    def delete_comment(self, ticket_id: str, comment_id: str) -> str:
        """Remove one comment of the ticket; return its id."""
        self.get(ticket_id)
        removed = self._db.execute(
            "DELETE FROM comment WHERE number = ? AND ticket = ?",
            (_number("C", comment_id), _number("T", ticket_id)),
        )
        if removed.rowcount == 0:
            raise NotFound(f"ticket {ticket_id} has no comment {comment_id}")
        return comment_id

    def _ticket(self, row: tuple[int, str, str, str, str, str | None]) -> dict[str, Any]:
        number, title, body, status, labels, assignee = row
        comments = self._db.execute(
            "SELECT number, body, author, created FROM comment WHERE ticket = ? ORDER BY number", (number,)
        )
        return {
            "id": f"T-{number}",
            "title": title,
            "body": body,
            "status": status,
            "labels": json.loads(labels),
            "assignee": assignee,
            "comments": [
                {"id": f"C-{comment}", "body": text, "author": author, "created": created}
                for comment, text, author, created in comments
            ],
        }

    def _insert_ticket(self, title: str, body: str, status: str, labels: list[str], assignee: str | None) -> int:
        done = self._db.execute(
            "INSERT INTO ticket (title, body, status, labels, assignee) VALUES (?, ?, ?, ?, ?)",
            (title, body, status, json.dumps(labels), assignee),
        )
        return int(done.lastrowid or 0)

    def _insert_comment(self, ticket: int, body: str, author: str, created: str) -> int:
        done = self._db.execute(
            "INSERT INTO comment (ticket, body, author, created) VALUES (?, ?, ?, ?)", (ticket, body, author, created)
        )
        return int(done.lastrowid or 0)

    def _prepare(self) -> None:
        """Create and fill a new database, in one transaction, so that two starts at once fill it once."""
        self._db.execute("BEGIN IMMEDIATE")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > _SCHEMA_VERSION:
            self._db.execute("ROLLBACK")
            raise Invalid(f"the ticket file is of version {version}, this program knows {_SCHEMA_VERSION}")
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                self._db.execute(statement)
            for title, body, status, labels, assignee, comments in _SEED:
                number = self._insert_ticket(title, body, status, labels, assignee)
                for author, text in comments:
                    self._insert_comment(number, text, author, _SEEDED_AT)
            self._db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        self._db.execute("COMMIT")


def _number(prefix: str, public_id: str) -> int:
    """Return the row behind a public id; an id of another form names nothing."""
    head, _, digits = public_id.partition("-")
    if head != prefix or not (digits.isascii() and digits.isdecimal() and len(digits) <= 15):
        raise NotFound(f"{public_id!r} is no {'ticket' if prefix == 'T' else 'comment'} id; they look like {prefix}-1")
    return int(digits)

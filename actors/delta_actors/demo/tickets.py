"""The demo connector `tickets`: a small ticket tracker over SQLite.

    python -m delta_actors.demo.tickets --db PATH

A new file is filled with a few tickets. There are no tools for labels: they are a field of the ticket.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import trio
from msgspec import UNSET, Meta, Struct, UnsetType

from delta_actors.demo.served import READS, BlockingTool, BlockingTools
from delta_actors.demo.store import TicketStore
from delta_actors.mcp import DeltaServer

Status = Literal["open", "in_progress", "closed"]
Id = Annotated[str, Meta(description="ticket id, as T-1")]


class Comment(Struct):
    """A comment of a ticket."""

    id: str
    body: str
    author: str
    created: str


class Ticket(Struct):
    """A ticket with its comments, oldest first."""

    id: str
    title: str
    body: str
    status: Status
    labels: list[str]
    assignee: str | None
    comments: list[Comment]


class Tickets(Struct, omit_defaults=True):
    """A page of tickets; `nextCursor` is there when more follow."""

    tickets: list[Ticket]
    nextCursor: str | None = None  # noqa: N815 - the name MCP gives a following page


class Deleted(Struct):
    """What is gone."""

    deleted: str


class GetTicket(Struct, forbid_unknown_fields=True):
    """Arguments of `get_ticket`."""

    id: Id


class ListTickets(Struct, forbid_unknown_fields=True):
    """Arguments of `list_tickets`."""

    status: Status | UnsetType = UNSET
    assignee: str | UnsetType = UNSET
    cursor: Annotated[str, Meta(description="nextCursor of the page before")] | UnsetType = UNSET


class CreateTicket(Struct, forbid_unknown_fields=True):
    """Arguments of `create_ticket`."""

    title: Annotated[str, Meta(min_length=1)]
    body: str = ""
    status: Status = "open"
    labels: list[str] = []
    assignee: str | None = None


class UpdateTicket(Struct, forbid_unknown_fields=True):
    """Arguments of `update_ticket`; what is not given stays."""

    id: Id
    title: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    body: str | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    labels: list[str] | UnsetType = UNSET
    assignee: str | UnsetType | None = UNSET


class DeleteTicket(Struct, forbid_unknown_fields=True):
    """Arguments of `delete_ticket`."""

    id: Id


class AddComment(Struct, forbid_unknown_fields=True):
    """Arguments of `add_comment`."""

    ticket_id: Id
    body: Annotated[str, Meta(min_length=1)]


class DeleteComment(Struct, forbid_unknown_fields=True):
    """Arguments of `delete_comment`."""

    ticket_id: Id
    comment_id: Annotated[str, Meta(description="comment id, as C-1")]


def tools(store: TicketStore) -> list[BlockingTool]:
    """Return the connector's seven tools over `store`."""
    adds = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
    changes = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
    return [
        BlockingTool(
            "get_ticket",
            "Get a ticket",
            "Return one ticket with its comments.",
            GetTicket,
            Ticket,
            READS,
            lambda given: store.get(given.id),
        ),
        BlockingTool(
            "list_tickets",
            "List tickets",
            "Return tickets in the order of their ids, optionally of one status or assignee.",
            ListTickets,
            Tickets,
            READS,
            lambda given: _page(*store.page(**msgspec.to_builtins(given))),
        ),
        BlockingTool(
            "create_ticket",
            "Create a ticket",
            "Add a ticket and return it.",
            CreateTicket,
            Ticket,
            adds,
            lambda given: store.create(given.title, given.body, given.status, given.labels, given.assignee),
        ),
        BlockingTool(
            "update_ticket",
            "Update a ticket",
            "Set the given fields of a ticket and return it; labels replace the labels there are.",
            UpdateTicket,
            Ticket,
            changes,
            lambda given: store.update(given.id, _fields(given)),
        ),
        BlockingTool(
            "delete_ticket",
            "Delete a ticket",
            "Remove a ticket with its comments.",
            DeleteTicket,
            Deleted,
            changes,
            lambda given: {"deleted": store.delete(given.id)},
        ),
        BlockingTool(
            "add_comment",
            "Add a comment",
            "Add a comment to a ticket and return the comment.",
            AddComment,
            Comment,
            adds,
            lambda given: store.add_comment(given.ticket_id, given.body),
        ),
        BlockingTool(
            "delete_comment",
            "Delete a comment",
            "Remove one comment of a ticket.",
            DeleteComment,
            Deleted,
            changes,
            lambda given: {"deleted": store.delete_comment(given.ticket_id, given.comment_id)},
        ),
    ]


def _page(tickets: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    return {"tickets": tickets} if cursor is None else {"tickets": tickets, "nextCursor": cursor}


def _fields(given: UpdateTicket) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(given).items() if name != "id"}


def main() -> None:
    """Serve one client on stdin and stdout."""
    parser = argparse.ArgumentParser(prog="delta_actors.demo.tickets", description="A small ticket tracker over MCP.")
    parser.add_argument("--db", type=Path, required=True, help="the SQLite file; created if it is not there")
    path: Path = parser.parse_args().db
    path.parent.mkdir(parents=True, exist_ok=True)
    store = TicketStore(path)
    try:
        trio.run(DeltaServer("tickets", "1.0.0", title="Tickets", tools=BlockingTools(tools(store))).run_stdio)
    finally:
        store.close()


if __name__ == "__main__":
    main()

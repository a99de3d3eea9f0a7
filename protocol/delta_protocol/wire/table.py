"""Who may ask whom. Every wait between actors follows this acyclic table, so no two actors can wait for each other.

An actor holds a greeting token only for the roles it may ask: an edge missing here cannot be opened at run time.
Nobody asks transport: a connector's question travels up the call that caused it.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast, get_args

from delta_protocol.wire import auth, control, journal, registry, results, sandbox
from delta_protocol.wire.message import Answer, Item, LogMessage, Progress, Question, Role

ASKS: Mapping[str, frozenset[str]] = {
    Role.TRANSPORT: frozenset({Role.REGISTRY, Role.SANDBOX, Role.JOURNAL, Role.RESULTS, Role.AUTH}),
    Role.SANDBOX: frozenset({Role.REGISTRY}),
    Role.JOURNAL: frozenset({Role.REGISTRY}),
    Role.REGISTRY: frozenset({Role.AUTH}),
    Role.RESULTS: frozenset(),
    Role.AUTH: frozenset(),
    Role.OPERATOR: frozenset({Role.JOURNAL, Role.REGISTRY, Role.AUTH}),
}


def callers_of(role: str) -> frozenset[str]:
    """Return the roles that may open a link to `role`."""
    return frozenset(caller for caller, callees in ASKS.items() if role in callees)


INBOXES: Mapping[str, tuple[type[Any], ...]] = {
    Role.TRANSPORT: (),
    Role.REGISTRY: get_args(registry.Inbox),
    Role.SANDBOX: (sandbox.RunProgram,),
    Role.JOURNAL: get_args(journal.Inbox),
    Role.RESULTS: get_args(results.Inbox),
    Role.AUTH: get_args(auth.Inbox),
}
"""What each role understands."""

CONTROL: tuple[type[Any], ...] = get_args(control.Inbox)
"""What every actor understands from the supervisor, over its control socket."""

ITEMS: tuple[type[Item], ...] = (
    Progress,
    LogMessage,
    Question,
    Answer,
    registry.CatalogueChanged,
    registry.OffersChanged,
    registry.ResourceUpdated,
)
"""What may flow on open calls."""


def cycle(asks: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the roles of a circle of waits in `asks`, first role repeated at the end; empty when there is none."""
    try:
        TopologicalSorter(asks).prepare()
    except CycleError as error:
        # graphlib names the circle from callee to caller.
        return tuple(reversed(cast("list[str]", error.args[1])))
    return ()

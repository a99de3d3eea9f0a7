"""Who may ask whom. Every wait between actors follows this acyclic table, so no two actors can wait for each other.

An actor holds a greeting token only for the roles it may ask: an edge missing here cannot be opened at run time.
Nobody asks transport: a connector's question travels up the call that caused it.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta_protocol.wire.message import Role

ASKS: Mapping[Role, frozenset[Role]] = {
    Role.TRANSPORT: frozenset({Role.REGISTRY, Role.SANDBOX, Role.JOURNAL, Role.RESULTS, Role.AUTH}),
    Role.SANDBOX: frozenset({Role.REGISTRY}),
    Role.JOURNAL: frozenset({Role.REGISTRY}),
    Role.REGISTRY: frozenset({Role.AUTH}),
    Role.RESULTS: frozenset(),
    Role.AUTH: frozenset(),
    Role.OPERATOR: frozenset({Role.JOURNAL, Role.REGISTRY, Role.AUTH}),
}


def callers_of(role: Role) -> frozenset[Role]:
    """Return the roles that may open a link to `role`."""
    return frozenset(caller for caller, callees in ASKS.items() if role in callees)

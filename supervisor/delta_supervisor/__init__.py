"""What touches processes: spawning, reaping, sockets, readiness, restarts, the stdio relay and the command line.

Owns: the process tree of a stack, its listening sockets, its lock and its control socket. Talks to every actor over
the control link that the actor was born with; nobody talks to it but the command line and relays of the same user,
over `control.sock`. Knows actors by name and factory string only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from delta_supervisor.child import Child as Child
    from delta_supervisor.supervisor import Supervisor as Supervisor

__all__ = ["Child", "Supervisor"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """Import on use: the relay starts without trio."""
    if name == "Supervisor":
        from delta_supervisor.supervisor import Supervisor

        return Supervisor
    if name == "Child":
        from delta_supervisor.child import Child

        return Child
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

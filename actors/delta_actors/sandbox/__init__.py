"""The sandbox runs programs: it owns the zygote, the jailed workers forked from it, and the replay of what they did.

Transport asks it (`delta_protocol.wire.sandbox`); it asks the registry, for reads only. Nothing that a worker says is
believed: host calls are checked against the catalogue, changes replayed on our own copy, frames decoded strictly.
The engine, worker and zygote modules run in processes of their own and never import trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from delta_actors.sandbox.actor import SandboxActor as SandboxActor

__all__ = ["SandboxActor"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - module attribute
    if name == "SandboxActor":
        from delta_actors.sandbox.actor import SandboxActor

        return SandboxActor
    raise AttributeError(name)

"""The call being handled in this task, from which nested asks inherit.

A trio task copies its parent's context, so tasks that a handler starts in a nursery of its own inherit as well. The
deadline needs no help: a handler runs in a cancel scope that ends at it. What an actor does outside any call (its
`run`, its context's nursery) speaks for the system itself.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from delta_protocol.wire.message import SYSTEM, Origin, Principal


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a nested ask takes over when it names nothing else."""

    principal: Principal = SYSTEM
    origin: Origin | None = None
    trace: str = ""


NOTHING = Inherited()

CURRENT: ContextVar[Inherited] = ContextVar("delta_current_call", default=NOTHING)


@contextmanager
def speaking_for(principal: Principal, origin: Origin | None = None, trace: str = "") -> Generator[None, None, None]:
    """Let asks in this block (and tasks begun in it) go out on behalf of `principal`: for edges and for tests."""
    token = CURRENT.set(Inherited(principal, origin, trace))
    try:
        yield
    finally:
        CURRENT.reset(token)

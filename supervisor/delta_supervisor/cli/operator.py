"""A person's own links to the actors: journal, registry and auth, opened with the grants that the stack hands out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

import trio

from delta_actors.runtime.actor import Ref
from delta_actors.runtime.birth import Birth
from delta_actors.runtime.current import Inherited
from delta_actors.runtime.host import open_ref
from delta_actors.runtime.schema import schema_of
from delta_protocol.config import StackConfig
from delta_protocol.errors import ActorUnavailable
from delta_protocol.wire.message import Principal, Role
from delta_protocol.wire.table import INBOXES
from delta_supervisor.control.client import ControlClient
from delta_supervisor.places import runtime_dir

ResultT = TypeVar("ResultT")

OPERATOR = Principal("operator", "operator")
ANSWER_TIMEOUT = 120.0
"""Seconds that an actor may take: applying and undoing included."""


def ask(
    state_dir: Path, role: Role, work: Callable[[Ref], Awaitable[ResultT]], *, timeout: float = ANSWER_TIMEOUT
) -> ResultT:
    """Run `work` with a link to `role` of the stack in `state_dir` and return its result.

    Raises `NoStack`, `Refused` (also when this process descends from the stack), or what the actor raised.
    """
    run = runtime_dir(state_dir)
    with ControlClient(run) as client:
        grants = client.admit().grants

    async def main() -> ResultT:
        birth = Birth(Role.OPERATOR, 0, StackConfig(), state_dir, run, {}, grants)
        async with trio.open_nursery() as nursery:
            ref = open_ref(birth, role, schema_of(INBOXES[role]), nursery, Inherited(OPERATOR))
            try:
                with trio.fail_after(timeout):
                    result = await work(ref)
            except trio.TooSlowError:
                raise ActorUnavailable(
                    f"{role} did not answer within {timeout:g} s; see `delta-supervisor status`"
                ) from None
            nursery.cancel_scope.cancel()
        return result

    return unwrapped(main)


def unwrapped(main: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run `main` under trio; a lone error comes out as itself, not as a group."""
    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        inner: BaseExceptionGroup[BaseException] = group
        while len(inner.exceptions) == 1:
            only: BaseException = inner.exceptions[0]
            if not isinstance(only, BaseExceptionGroup):
                raise only from None
            inner = cast("BaseExceptionGroup[BaseException]", only)
        raise

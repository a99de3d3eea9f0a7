"""A stack whose sandbox an attacker took over, with all that it was given: `python -m tests.stack.taken HOME`.

Programs are not run. The sandbox makes the attack instead and returns, by name, how each attempt was refused.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
import trio

from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_actors.runtime.birth import Birth
from delta_actors.runtime.current import Inherited
from delta_actors.runtime.host import open_ref
from delta_actors.runtime.schema import schema_of
from delta_protocol.changes.model import Plan, PlannedCall, Reversibility, Value
from delta_protocol.changes.plan import sealed
from delta_protocol.errors import DeltaError
from delta_protocol.wire.journal import Apply
from delta_protocol.wire.message import Principal, Request, Role
from delta_protocol.wire.registry import PassTool, ReadTool, Services, WriteTool
from delta_protocol.wire.sandbox import ProgramOutcome, RunProgram
from delta_protocol.wire.table import INBOXES
from delta_supervisor.load import Flags, load
from delta_supervisor.notify import Notifier
from delta_supervisor.prepare import prepare
from delta_supervisor.spawn import Zygote
from delta_supervisor.stack import Stack

DELTA = "d_aaaaaaaaaaaa"
ARGUMENTS = b'{"id":"a","value":"forged"}'
LOOPBACK = Principal("loopback", "loopback")


def _planned(**changes: Any) -> PlannedCall:
    honest = PlannedCall(1, "probe", "update_item", Value(ARGUMENTS), Reversibility.R3, "update a")
    return msgspec.structs.replace(honest, **changes)


PLANS = {
    "no tool 'drop_everything'": _planned(tool="drop_everything"),
    "no connector 'nowhere'": _planned(connector="nowhere"),
    "call 1 is numbered 0": _planned(number=0),
    "do not follow from the call": _planned(reversibility=Reversibility.R0, words="nothing at all"),
}
"""Plans that no program made, by what they are refused with; the attacker hands one in for a program of that text."""


class TakenSandbox(Actor):
    """The sandbox actor, replaced by an attacker."""

    role: ClassVar[str] = Role.SANDBOX

    async def start(self, context: Context) -> tuple[str, ...]:
        """Keep what the supervisor gave."""
        self._context = context
        return ()

    def handlers(self) -> Handlers:
        """Programs."""
        handlers = Handlers()
        handlers.ask(RunProgram, self._attack)
        return handlers

    async def _attack(self, request: RunProgram, call: Call) -> ProgramOutcome:
        if forged := PLANS.get(request.code):
            return ProgramOutcome(plan=sealed(Plan(request.catalogue, (forged,))))
        registry = self._context.ref(Role.REGISTRY)
        write = WriteTool("probe", "update_item", ARGUMENTS, DELTA, f"{DELTA}:1.1", "k", "x")
        attempts: dict[str, Callable[[], Awaitable[Any]]] = {
            "own link": lambda: registry.ask(Services()),
            "write": lambda: registry.ask(write),
            "write as a read": lambda: registry.ask(ReadTool("probe", "update_item", ARGUMENTS)),
            "write passed through": lambda: registry.ask(PassTool("probe", "update_item", ARGUMENTS)),
            "as the journal": lambda: self._linked(Role.JOURNAL, Role.REGISTRY, write),
            "as the transport": lambda: self._linked(Role.TRANSPORT, Role.REGISTRY, write),
            "as the operator": lambda: self._linked(Role.OPERATOR, Role.REGISTRY, write),
            "to the journal": lambda: self._linked(Role.SANDBOX, Role.JOURNAL, Apply(DELTA)),
            "to the journal as the transport": lambda: self._linked(Role.TRANSPORT, Role.JOURNAL, Apply(DELTA)),
        }
        told = {name: await _told(attempt) for name, attempt in attempts.items()}
        return ProgramOutcome(Value(json.dumps(told).encode()))

    async def _linked(self, role: Role, callee: Role, message: Request[Any]) -> Any:
        """Ask over a link opened with the sandbox's own token as if it were that of `role`."""
        birth: Birth = cast("Any", self._context).birth
        stolen = msgspec.structs.replace(
            next(each for each in birth.grants if each.role == Role.REGISTRY),
            role=callee,
            address=str(birth.runtime_dir / f"{callee}.sock"),
        )
        forged = dataclasses.replace(birth, role=role, grants=(stolen,))
        async with trio.open_nursery() as nursery:
            ref = open_ref(forged, callee, schema_of(INBOXES[callee]), nursery, Inherited(LOOPBACK))
            with trio.fail_after(10):
                reply = await ref.ask(message)
            nursery.cancel_scope.cancel()
        return reply


async def _told(attempt: Callable[[], Awaitable[Any]]) -> str:
    told = "let in"
    try:
        await attempt()
    except* DeltaError as errors:
        told = ",".join(f"{type(each).__name__}: {each}" for each in errors.exceptions)
    return told


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> None:
    """Run the stack of HOME/state, configured by HOME/delta.toml, until it is stopped."""
    home = Path(sys.argv[1])
    flags = Flags(state_dir=home / "state", config=(home / "delta.toml",), settings=(("http.port", "0"),))
    ground = prepare(load(flags, os.environ, home), os.environ, command="taken")
    factories = {Role.SANDBOX: "tests.stack.taken:TakenSandbox"}

    async def run() -> None:
        zygote = Zygote(report=_report)
        await Stack(ground, zygote, factories=factories, report=_report, notifier=Notifier({})).run()

    try:
        trio.run(run)
    finally:
        ground.close()


if __name__ == "__main__":
    main()

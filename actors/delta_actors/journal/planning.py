"""Programs that are running and have no plan yet. Kept in memory: until a plan is handed in, nothing can be lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from delta_protocol.codecs import exact_json
from delta_protocol.errors import Conflict, NotFound, Overloaded
from delta_protocol.wire.journal import Begin
from delta_protocol.wire.message import Principal

MOST = 10_000
"""Programs without a plan; a client that begins and never ends them cannot fill the memory."""
FORGOTTEN = 3600.0
"""Seconds after which a program that never came back is forgotten."""


@dataclass(slots=True)
class Program:
    """One running program. `began`: trio's clock; `created`: seconds since the epoch."""

    id: str
    begin: Begin
    principal: Principal
    fingerprint: str
    began: float
    created: float
    deadline: float
    """When its client stops waiting, on trio's clock."""
    lost: trio.Event
    """Set when the link it was begun over broke."""
    taken: bool = False
    """Somebody hands in its plan or ends it: nobody else may."""
    ended: trio.Event = field(default_factory=trio.Event)


class Planning:
    """The running programs, by id and by what makes two of them the same."""

    def __init__(self) -> None:
        self._by_id: dict[str, Program] = {}
        self._by_fingerprint: dict[str, Program] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(
        self, delta: str, begin: Begin, principal: Principal, now: float, *, deadline: float, lost: trio.Event
    ) -> Program:
        """Register a program as `delta`. Raises `Overloaded` when there are too many, `Conflict` for a name in use."""
        if delta in self._by_id:
            raise Conflict(f"a program is running as {delta} already", delta=delta)
        clock = trio.current_time()
        if len(self._by_id) >= MOST:
            for old in [each for each in self._by_id.values() if each.began < clock - FORGOTTEN]:
                self.end(old.id)
            if len(self._by_id) >= MOST:
                raise Overloaded("too many programs are running", retry_after=1)
        program = Program(delta, begin, principal, fingerprint(begin, principal), clock, now, deadline, lost)
        self._by_id[program.id] = program
        self._by_fingerprint[program.fingerprint] = program
        return program

    def running(self, fingerprint: str) -> Program | None:
        """Return the running program of that fingerprint. One that nobody can end any more is forgotten instead."""
        program = self._by_fingerprint.get(fingerprint)
        if program is None or program.taken:
            return program
        if program.lost.is_set() or trio.current_time() > program.deadline:
            self.end(program.id)
            return None
        return program

    def get(self, delta: str, principal: Principal) -> Program:
        """Return a running program of this principal. Raises `NotFound`."""
        program = self._by_id.get(delta)
        if program is None or program.principal.id != principal.id:
            raise NotFound(f"no program is running as {delta}: it ended, or the journal was restarted", delta=delta)
        return program

    async def take(self, delta: str, principal: Principal) -> Program:
        """Return a running program for its one end. Raises `NotFound`, once it has ended where another is ending it."""
        program = self.get(delta, principal)
        if not program.taken:
            program.taken = True
            return program
        await program.ended.wait()
        return self.get(delta, principal)

    def end(self, delta: str) -> None:
        """Forget a program; who waits for its end goes on."""
        program = self._by_id.pop(delta, None)
        if program is not None:
            if self._by_fingerprint.get(program.fingerprint) is program:
                del self._by_fingerprint[program.fingerprint]
            program.ended.set()


def fingerprint(begin: Begin, principal: Principal) -> str:
    """Return what makes two programs the same (plan-apply-undo 5.15)."""
    return exact_json.digest([principal.id, begin.conversation, begin.code, begin.options, begin.dry_run])

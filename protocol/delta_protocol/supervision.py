"""Restart tables: which children a supervisor stops and starts when one of them ends, as OTP does it, with backoff.

The table knows no processes, clock or randomness: the driver says what happened and when, and does what is answered.
Times are seconds on any one clock that only goes forward; `chance` is a number in [0, 1).

    strategy       child ci of c1..cn ended and is due for a restart: stopped (last first), then started (first first)
    one_for_one    ci
    one_for_all    all
    rest_for_one   ci and those after it

    restart        when it is due
    permanent      always
    transient      after an end that was not clean
    temporary      never: it leaves the table, also when a sibling's end took it along

More than `max_restarts` ends that called for a restart within `window` seconds escalate: everything is stopped and
the supervisor itself fails, to be dealt with by whoever supervises it. Backoff never resets that count; a child that
served for `window` seconds starts its own backoff anew. Source: Erlang/OTP `supervisor`; backoff is an addition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Restart(StrEnum):
    """When a child that ended is started again."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Strategy(StrEnum):
    """Who is restarted along with the child that ended."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"


@dataclass(frozen=True, slots=True)
class Member:
    """One child as the table knows it."""

    name: str
    restart: Restart = Restart.PERMANENT


@dataclass(frozen=True, slots=True)
class Intensity:
    """At most `max_restarts` in `window` seconds."""

    max_restarts: int = 3
    window: float = 5.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before a restart: `first`, growing by `factor` up to `most`, each spread by `jitter` to both sides."""

    first: float = 0.1
    most: float = 10.0
    factor: float = 2.0
    jitter: float = 0.2

    def delay(self, attempt: int, chance: float) -> float:
        """Return the wait before restart number `attempt` (from 0) in a row."""
        # Beyond this exponent every sensible `first` has reached `most`, and a float could overflow.
        grown = min(self.first * self.factor ** min(attempt, 64), self.most)
        return grown * (1.0 + self.jitter * (2.0 * chance - 1.0))


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do: stop `stop` in order, each fully; wait `delay` seconds; start `start` in order.

    `escalate`: stop and give up. A child in `stop` may be waiting for its own restart: that is called off.
    """

    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    delay: float = 0.0
    escalate: bool = False


NOTHING = Decision()


class RestartTable:
    """The children of one supervisor, in start order."""

    def __init__(
        self,
        members: Iterable[Member],
        *,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        intensity: Intensity = Intensity(),
        backoff: Backoff = Backoff(),
    ) -> None:
        """Raise `ValueError` for a name used twice."""
        self._members: dict[str, Member] = {}
        for member in members:
            if self._members.setdefault(member.name, member) is not member:
                raise ValueError(f"two children are called {member.name!r}")
        self._strategy = strategy
        self._intensity = intensity
        self._backoff = backoff
        self._wanted: set[str] = set()
        self._ready_at: dict[str, float] = {}
        self._attempts: dict[str, int] = {}
        self._restarts: deque[float] = deque()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The children that should be up now, in start order: running, starting, or waiting for their restart."""
        return tuple(name for name in self._members if name in self._wanted)

    def start(self, name: str | None = None) -> tuple[str, ...]:
        """Note that `name` (None: every child) is wanted; return what to start, in order.

        Raises `KeyError` for a name that is not, or no longer, in the table.
        """
        names = tuple(self._members) if name is None else (self._members[name].name,)
        fresh = tuple(name for name in names if name not in self._wanted)
        self._wanted.update(fresh)
        return fresh

    def ready(self, name: str, now: float) -> None:
        """Note that a child serves."""
        if name in self._wanted:
            self._ready_at[name] = now

    def stop(self) -> tuple[str, ...]:
        """Note that nothing is wanted any more; return what to stop, in order. What ends from now on is no crash."""
        stopping = tuple(reversed(self.wanted))
        self._wanted.clear()
        self._ready_at.clear()
        return stopping

    def ended(self, name: str, *, clean: bool, now: float, chance: float) -> Decision:
        """Decide about a child that ended by itself (or never became ready).

        A child that is not wanted was stopped on purpose: nothing is to be done.
        """
        if name not in self._wanted:
            return NOTHING
        self._note_service(name, now)
        restart = self._members[name].restart
        if restart is Restart.TEMPORARY or (restart is Restart.TRANSIENT and clean):
            self._wanted.discard(name)
            if restart is Restart.TEMPORARY:
                del self._members[name]
            return NOTHING
        self._restarts.append(now)
        while self._restarts[0] <= now - self._intensity.window:
            self._restarts.popleft()
        if len(self._restarts) > self._intensity.max_restarts:
            self._wanted.discard(name)
            return Decision(stop=self.stop(), escalate=True)
        return self._restart(name, chance)

    def _note_service(self, name: str, now: float) -> None:
        ready_at = self._ready_at.pop(name, None)
        if ready_at is not None and now - ready_at >= self._intensity.window:
            self._attempts.pop(name, None)

    def _restart(self, name: str, chance: float) -> Decision:
        attempt = self._attempts.get(name, 0)
        self._attempts[name] = attempt + 1
        order = tuple(self._members)
        hit = {
            Strategy.ONE_FOR_ONE: (name,),
            Strategy.ONE_FOR_ALL: order,
            Strategy.REST_FOR_ONE: order[order.index(name) :],
        }[self._strategy]
        affected = [other for other in hit if other in self._wanted]
        for other in affected:
            self._ready_at.pop(other, None)
            if self._members[other].restart is Restart.TEMPORARY:
                self._wanted.discard(other)
                del self._members[other]
        return Decision(
            stop=tuple(other for other in reversed(affected) if other != name),
            start=tuple(other for other in affected if other in self._wanted),
            delay=self._backoff.delay(attempt, chance),
        )

"""Supervision of actor processes: started in parallel, restarted by the table, stopped in reverse, escalated."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from delta_actors.runtime.supervising import CannotStart, RestartIntensityExceeded
from delta_protocol.codecs import exact_json
from delta_protocol.config import StackConfig
from delta_protocol.supervision import Backoff, Intensity, Member, RestartTable, Strategy
from delta_protocol.wire.control import ActorStatistics
from delta_protocol.wire.message import Role
from delta_supervisor.child import Child, Exit, Incarnation, State, Surroundings
from delta_supervisor.control.messages import ActorStatus
from delta_supervisor.reap import Left, resident_bytes, write_record
from delta_supervisor.spawn import Zygote

RECORD_NAME = "processes.json"

STOP_MARGIN = 3.0
"""Seconds beyond a child's stop timeout that its end may take: SIGTERM, SIGKILL, the reaping."""

_Exits = trio.MemorySendChannel["tuple[_Slot, int, Exit]"]


@dataclass(slots=True)
class _Slot:
    """A child and its lives, one after another."""

    child: Child
    state: State = State.EXITED
    current: Incarnation | None = None
    incarnation: int = 0
    lives: int = 0
    """Counts beginnings, so that a late word of an earlier life is known as such."""
    restarts: int = 0
    error: str = ""
    refusal: str = ""
    waiting: trio.CancelScope | None = None
    stopping: bool = False
    done: trio.Event = field(default_factory=trio.Event)


class Supervisor:
    """Runs `children` as processes until stopped. Root strategy, restart kinds and intensity as in OTP; backoff beside.

    The process that runs it must be a subreaper (`reap.become_subreaper`) and holds all listening sockets: a child
    takes them over at each start, so nothing is refused while it is down. `report` gets lines for people.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        zygote: Zygote,
        config: StackConfig,
        state_dir: Path,
        runtime_dir: Path,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        report: Callable[[str], None] = print,
    ) -> None:
        self._slots = {child.role: _Slot(child) for child in children}
        self._given = Surroundings(config, state_dir, runtime_dir, zygote)
        self._report = report
        self._table = RestartTable(
            [Member(str(child.role), child.restart) for child in children],
            strategy=strategy,
            intensity=Intensity(config.supervision.max_restarts, config.supervision.window),
            backoff=Backoff(config.supervision.backoff, config.supervision.backoff_max),
        )
        self._stop_called = False
        self._deciding = trio.CancelScope()
        self._changed = trio.Event()

    async def run(self) -> None:
        """Start every child and keep them running; returns after `stop`, when all have ended.

        Raises `RestartIntensityExceeded`; of it `CannotStart` with the words of an actor that would fail again.
        Cancelling kills the children and waits for nothing but the kernel.
        """
        send, receive = trio.open_memory_channel[tuple[_Slot, int, Exit]](len(self._slots) + 1)
        straw: _Slot | None = None
        async with trio.open_nursery() as nursery:
            for name in self._table.start():
                self._begin(nursery, self._slots[Role(name)], 0.0, send)
            with self._deciding:
                async for slot, life, end in receive:
                    if life == slot.lives and not await self._decide(nursery, slot, end, send):
                        straw = slot
                        break
            self._stop_called = True
            self._table.stop()
            await self._stop_in_reverse(list(self._slots.values()))
        if straw is not None:
            role = str(straw.child.role)
            if straw.refusal:
                raise CannotStart(f"{role} cannot start: {straw.refusal}", actor=role)
            raise RestartIntensityExceeded(f"{role} ended too often ({straw.error}); all was stopped", actor=role)

    def stop(self) -> None:
        """Stop every child, in reverse order and each within its bound; `run` returns then."""
        self._stop_called = True
        self._deciding.cancel()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called, or the supervisor gave up."""
        return self._stop_called

    @property
    def changed(self) -> trio.Event:
        """Set at the next change of some child's state."""
        return self._changed

    @property
    def stop_bound(self) -> float:
        """Seconds that an orderly stop may take."""
        return sum(self._given.config.actor(role).stop_timeout + STOP_MARGIN for role in self._slots)

    @property
    def ready_count(self) -> tuple[int, int]:
        """How many of the children that are not lazy are ready, and how many there are."""
        slots = [slot for slot in self._slots.values() if not slot.child.lazy]
        return sum(slot.state is State.READY for slot in slots), len(slots)

    @property
    def is_ready(self) -> bool:
        """Whether every child that is not lazy is ready."""
        ready, wanted = self.ready_count
        return ready == wanted

    @property
    def is_alive(self) -> bool:
        """Whether every child that is not lazy answered a heartbeat within its time: what the watchdog is told."""
        now = trio.current_time()
        return all(self._is_alive(slot, now) for slot in self._slots.values() if not slot.child.lazy)

    @property
    def addresses(self) -> tuple[str, ...]:
        """What the children bound for the outside."""
        return tuple(
            address for slot in self._slots.values() if slot.current is not None for address in slot.current.addresses
        )

    @property
    def activity(self) -> bytes:
        """Changes whenever some child handled something since the last heartbeat."""
        figures = [
            (slot.current.statistics.handled, slot.current.statistics.in_flight, slot.current.statistics.links)
            for slot in self._slots.values()
            if slot.current is not None
        ]
        return repr(figures).encode()

    @property
    def pids(self) -> frozenset[int]:
        """The living children."""
        return frozenset(left.pid for left in self._running())

    def statistics(self) -> tuple[ActorStatus, ...]:
        """Return every child as it stands, in order."""
        return tuple(_status(slot) for slot in self._slots.values())

    def _is_alive(self, slot: _Slot, now: float) -> bool:
        settings = self._given.config.actor(slot.child.role)
        if slot.state is not State.READY or slot.current is None:
            return False
        return now - slot.current.last_heartbeat <= settings.heartbeat + settings.heartbeat_timeout

    def _begin(self, nursery: trio.Nursery, slot: _Slot, delay: float, exits: _Exits) -> None:
        slot.done = trio.Event()
        slot.stopping = False
        slot.lives += 1
        nursery.start_soon(self._live, slot, delay, exits)

    async def _live(self, slot: _Slot, delay: float, exits: _Exits) -> None:
        """One life of a child, with what comes before it: its backoff, and for a lazy one its first caller."""
        end: Exit | None = None
        life = slot.lives
        with trio.CancelScope() as slot.waiting:
            if delay > 0:
                self._set(slot, State.BACKOFF)
                await trio.sleep(delay)
            if slot.child.lazy:
                self._set(slot, State.EXITED)
                await trio.lowlevel.wait_readable(slot.child.link.fileno())
        if not slot.stopping:
            slot.incarnation += 1
            slot.current = Incarnation(slot.child, slot.incarnation, self._given, lambda: self._mirror(slot))
            self._set(slot, State.STARTING)
            end = await slot.current.run()
            slot.current = None
        self._set(slot, State.EXITED)
        slot.done.set()
        if end is not None and not slot.stopping:
            await exits.send((slot, life, end))

    async def _decide(self, nursery: trio.Nursery, slot: _Slot, end: Exit, exits: _Exits) -> bool:
        """Do what the table says about an end; False when the supervisor is to give up."""
        slot.error, slot.refusal = end.cause, end.refusal
        if end.refusal:
            self._set(slot, State.FAILED)
            return False
        decision = self._table.ended(
            str(slot.child.role),
            clean=end.clean,
            now=trio.current_time(),
            chance=random.random(),  # noqa: S311 - spreads restarts, guards nothing
        )
        if decision.escalate:
            self._report(f"{slot.child.role} ended ({end.cause}), once too often; giving up")
            self._set(slot, State.FAILED)
            return False
        again = f"; again in {decision.delay:.1f} s" if decision.start else ""
        self._report(f"{slot.child.role} ended ({end.cause}){again}")
        await self._stop_in_reverse([self._slots[Role(name)] for name in reversed(decision.stop)])
        for name in decision.start:
            started = self._slots[Role(name)]
            started.restarts += 1
            self._begin(nursery, started, decision.delay, exits)
        return True

    async def _stop_in_reverse(self, slots: Sequence[_Slot]) -> None:
        for slot in reversed(slots):
            slot.stopping = True
            if slot.waiting is not None:
                slot.waiting.cancel()
            if slot.current is not None:
                slot.current.stop()
            await slot.done.wait()

    def _mirror(self, slot: _Slot) -> None:
        if slot.current is not None:
            self._set(slot, slot.current.state)

    def _set(self, slot: _Slot, state: State) -> None:
        if state is State.READY and slot.state is not State.READY:
            self._table.ready(str(slot.child.role), trio.current_time())
        slot.state = state
        write_record(self._given.runtime_dir / RECORD_NAME, tuple(self._running()))
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _running(self) -> list[Left]:
        return [
            Left(str(slot.child.role), slot.current.process.pid, slot.current.process.start_time)
            for slot in self._slots.values()
            if slot.current is not None and slot.current.process is not None and slot.current.process.ended is None
        ]


def _status(slot: _Slot) -> ActorStatus:
    incarnation = slot.current
    process = incarnation.process if incarnation is not None else None
    statistics = incarnation.statistics if incarnation is not None else ActorStatistics()
    return ActorStatus(
        name=str(slot.child.role),
        state=str(slot.state),
        pid=process.pid if process is not None else None,
        restarts=slot.restarts,
        incarnation=slot.incarnation,
        error=slot.error,
        in_flight=statistics.in_flight,
        queued=statistics.queued,
        handled=statistics.handled,
        failed=statistics.failed,
        memory=resident_bytes(process.pid) if process is not None else 0,
        extra=exact_json.decode(statistics.extra),
    )

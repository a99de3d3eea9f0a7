"""Actors with messages of their own, run by the tests as tasks and as processes."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import trio

from delta_actors.runtime import Actor, Call, Context, Handlers
from delta_protocol.config import ActorConfig, StackConfig
from delta_protocol.errors import Conflict, Invalid
from delta_protocol.wire.message import Done, Event, Item, Json, Principal, Progress, Request, Role

WORKER: str = Role.RESULTS
FRONT: str = Role.AUTH
"""Roles of the stack, so that `StackConfig` has settings for them; neither may speak for others."""


class Who(msgspec.Struct, frozen=True, array_like=True):
    caller: str
    principal: Principal
    conversation: str
    trace: str
    seconds_left: float


class Echo(Request[Json], frozen=True):
    value: Json


class EchoInline(Request[Json], frozen=True):
    value: Json


class WhoAmI(Request[Who], frozen=True):
    pass


class Relay(Request[Who], frozen=True):
    """Ask `WhoAmI` of the next one, in a task of the handler's own nursery."""


class Sleep(Request[Done], frozen=True):
    """Sleep, then note `end`; note what cut it short. `stubborn`: seconds of work that ignores cancellation."""

    name: str
    seconds: float
    stubborn: float = 0.0


class SleepOn(Request[Done], frozen=True):
    """The same, but the handler is kept when its caller is lost."""

    name: str
    seconds: float


class Count(Request[Done], frozen=True):
    """Emit `Progress` items 1..n."""

    upto: int


class Enquire(Request[Json], frozen=True):
    """Ask the caller, answer with its answer."""

    words: str


class Fail(Request[Done], frozen=True):
    kind: str


class Block(Request[Done], frozen=True):
    """Block the whole loop."""

    seconds: float


class Notes(Request[tuple[str, ...]], frozen=True):
    """What handlers noted so far."""


class Unanswered(Request[Done], frozen=True):
    """In the inbox, but without a handler."""


class Told(Event, frozen=True):
    words: str


class Words(Item, frozen=True):
    words: str


INBOX: tuple[type[Any], ...] = (
    Echo, EchoInline, WhoAmI, Relay, Sleep, SleepOn, Count, Enquire, Fail, Block, Notes, Unanswered, Told,
)  # fmt: skip
INBOXES = {WORKER: INBOX, FRONT: INBOX}
ASKS = {FRONT: frozenset({WORKER}), WORKER: frozenset[str](), "operator": frozenset({WORKER, FRONT}),
        "transport": frozenset({WORKER, FRONT})}  # fmt: skip


class WorkerActor(Actor):
    role = WORKER
    inboxes = INBOXES
    items = (Words, Progress)

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def start(self, context: Context) -> tuple[str, ...]:
        self.context = context
        return (f"test:{context.role}/{context.incarnation}",)

    def handlers(self) -> Handlers:
        handlers = Handlers()
        handlers.ask(Echo, self.echo)
        handlers.ask_inline(EchoInline, lambda request, _call: request.value)
        handlers.ask(WhoAmI, self.who)
        handlers.ask(Relay, self.relay)
        handlers.ask(Sleep, self.sleep)
        handlers.ask(SleepOn, self.sleep_on, keep_when_lost=True)
        handlers.ask(Count, self.count)
        handlers.ask(Enquire, self.enquire)
        handlers.ask(Fail, self.fail)
        handlers.ask(Block, self.block)
        handlers.ask_inline(Notes, lambda _request, _call: tuple(self.notes))
        handlers.tell(Told, lambda event: self.notes.append(event.words))
        return handlers

    async def echo(self, request: Echo, call: Call) -> Json:
        await trio.lowlevel.checkpoint()
        return request.value

    async def who(self, request: WhoAmI, call: Call) -> Who:
        left = call.deadline - trio.current_time()
        conversation = call.origin.conversation if call.origin else ""
        return Who(call.caller, call.principal, conversation, call.trace, min(left, 1e6))

    async def relay(self, request: Relay, call: Call) -> Who:
        answers: list[Who] = []

        async def ask() -> None:
            answers.append(await self.context.ref(WORKER).ask(WhoAmI()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
        return answers[0]

    async def sleep(self, request: Sleep, call: Call) -> Done:
        self.notes.append(f"{request.name} began")
        try:
            await trio.sleep(request.seconds)
        except trio.Cancelled:
            reason = "cancelled" if call.cancelled else "lost" if call.caller_lost.is_set() else "late"
            with trio.CancelScope(shield=True):
                await trio.sleep(request.stubborn)
            self.notes.append(f"{request.name} {reason}")
            raise
        self.notes.append(f"{request.name} done")
        return Done()

    async def sleep_on(self, request: SleepOn, call: Call) -> Done:
        await call.caller_lost.wait()
        self.notes.append(f"{request.name} saw the loss")
        await trio.sleep(request.seconds)
        self.notes.append(f"{request.name} done")
        return Done()

    async def count(self, request: Count, call: Call) -> Done:
        for number in range(1, request.upto + 1):
            await call.emit(Progress(float(number), float(request.upto)))
            self.notes.append(f"emitted {number}")
        return Done()

    async def enquire(self, request: Enquire, call: Call) -> Json:
        answer = await call.question(Words(request.words))
        assert isinstance(answer, Words)
        return answer.words.encode()

    async def fail(self, request: Fail, call: Call) -> Done:
        if request.kind == "conflict":
            raise Conflict("somebody was faster", field="status")
        if request.kind == "group":
            async with trio.open_nursery():
                raise Conflict("from a nursery")
        if request.kind == "crash":
            self.context.nursery.start_soon(self.crash)
            await trio.sleep_forever()
        if request.kind == "unencodable":
            return object()  # type: ignore[return-value]
        raise RuntimeError("a secret detail")

    async def crash(self) -> None:
        raise RuntimeError("the actor is broken")

    async def block(self, request: Block, call: Call) -> Done:
        time.sleep(request.seconds)
        return Done()

    def statistics(self) -> dict[str, Any]:
        return {"notes": len(self.notes)}


class FrontActor(WorkerActor):
    role = FRONT


class BadlyConfigured(WorkerActor):
    async def start(self, context: Context) -> tuple[str, ...]:
        raise Invalid("worker.colour: there is no such key")


class BrokenAtStart(WorkerActor):
    async def start(self, context: Context) -> tuple[str, ...]:
        raise RuntimeError("the disk is on fire")


CREDIT = 8


def config() -> StackConfig:
    settings = ActorConfig(credit=CREDIT, stop_timeout=3.0, start_timeout=30.0)
    actors: dict[Any, ActorConfig] = {WORKER: settings, FRONT: settings}
    return StackConfig(actors=actors)

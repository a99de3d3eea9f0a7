"""Drives the apply machine against a model store, with connectors that fail, lie, stall and normalise."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from delta_protocol.catalogue.model import Catalogue
from delta_protocol.catalogue.results import decoded
from delta_protocol.changes.apply import Apply
from delta_protocol.changes.model import CallState, DeltaState, Plan
from delta_protocol.changes.plan import completed
from delta_protocol.changes.readback import image_before
from delta_protocol.changes.states import MAYBE_SENT, call_may_move, may_move
from delta_protocol.changes.steps import Look, Pause, Reply, Save, Send, Step, Steps, seen
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, ToolReply
from tests.journal.world import World


class Crash(Exception):
    """The process ended here."""


class Driver:
    """What the journal is to the machine: durable states, and the connectors. `crash_at`: at which step it ends."""

    def __init__(self, world: World, state: DeltaState = DeltaState.APPLYING, crash_at: int | None = None) -> None:
        self.world = world
        self.state = state
        self.calls: dict[int, CallState] = {}
        self.results: dict[int, Any] = {}
        self.after: dict[int, Any] = {}
        self.intents: list[int] = []
        self.sent: list[tuple[str, Any]] = []
        self.crash_at = crash_at
        self.steps = 0
        self.reason = ""

    def run(self, steps: Steps[DeltaState], between: Callable[[int], None] = lambda _: None) -> DeltaState:
        answer: Any = None
        ended: DeltaState
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as stop:
                ended = stop.value
                break
            between(self.steps)
            if self.crash_at is not None and self.steps == self.crash_at:
                self._half(step)
                raise Crash
            self.steps += 1
            answer = self._do(step)
        assert ended is self.state
        return self.state

    def _half(self, step: Step) -> None:
        # A process that dies while sending may or may not have got the bytes out.
        if isinstance(step, Send) and self.steps % 2:
            self._send(step)

    def _do(self, step: Step) -> Any:
        match step:
            case Save():
                self._save(step)
                return None
            case Look():
                return _reply(self.world.reply(step.tool, json.loads(step.arguments)))
            case Pause():
                return True
            case Send():
                return self._send(step)

    def _send(self, step: Send) -> Reply:
        if not step.back:
            # Nothing is sent whose intent is not durable.
            assert self.calls[step.number] is CallState.INTENT
            self.sent.append((step.tool, json.loads(step.arguments)))
        else:
            assert self.calls[step.number] is CallState.COMPENSATING
        return _reply(self.world.write(step.tool, json.loads(step.arguments)))

    def _save(self, step: Save) -> None:
        if step.state is not None and step.state is not self.state:
            assert may_move(self.state, step.state), (self.state, step.state)
            self.state = step.state
        self.reason = step.reason or self.reason
        for number, change in step.calls.items():
            old = self.calls.get(number, CallState.PLANNED)
            assert old is change.state or call_may_move(old, change.state), (number, old, change.state)
            self.calls[number] = change.state
            if change.result is not None:
                self.results[number] = json.loads(change.result)
            if change.after is not None:
                self.after[number] = json.loads(change.after)

    def stored(self, plan: Plan) -> dict[int, CallState]:
        return {call.number: self.calls.get(call.number, CallState.PLANNED) for call in plan.calls}

    @property
    def in_doubt(self) -> bool:
        return any(state in MAYBE_SENT for state in self.calls.values())


def looked_up(plan: Plan, catalogue: Catalogue, world: World) -> Plan:
    """Return the plan as the journal completes it, once it has read what the plan asks for."""
    looks = [look for call in plan.calls for look in call.before_from]
    replies = [_reply(world.reply(look.read.tool, json.loads(look.read.arguments.json))) for look in looks]
    images = [image_before(seen(reply, look.read), look.read) for look, reply in zip(looks, replies, strict=True)]
    return completed(plan, catalogue, [(look.entity, image) for look, image in zip(looks, images, strict=True)])


def _reply(reply: ToolReply) -> Reply:
    result = decoded(reply.result) if reply.outcome is Outcome.OK else None
    return Reply(reply.outcome, result, reply.message, reply.retry_after)


def unchecked(_: Any, arguments: Json) -> Json:
    return arguments


def machine(plan: Plan, driver: Driver | None = None) -> Apply:
    """Return a machine at its start, or as it is taken up from what the driver stored."""
    if driver is None:
        return Apply(plan, unchecked)
    return Apply(plan, unchecked, states=driver.stored(plan), results=copy.deepcopy(driver.results))

"""Calls of connectors that wait while a client is asked in rounds (spec 1.20: modern front, legacy back).

A legacy connector asks in the middle of its call; a modern client is asked by the end of its own, and comes back with
the answer. So the connector's call is held open here in between: bounded in number and time, for the principal who
made it, in this process only.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

import trio

from delta_actors.gateway.caller import Caller, alone, named
from delta_actors.mcp import Question, RpcError
from delta_actors.runtime.actor import Listener
from delta_protocol.codecs import exact_json
from delta_protocol.errors import ConnectorFailed, DeltaError
from delta_protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from delta_protocol.mcp import questions
from delta_protocol.wire import message as wire
from delta_protocol.wire.message import Answer, Answered, Item, Json
from delta_protocol.wire.registry import PassReply

HELD_FOR = 300.0
"""Seconds for which a call is held while its client is asked."""
MOST_HELD = 64
MOST_HELD_EACH = 16
"""Calls that are held at once: of all principals, of one."""

Ask = Callable[[Listener], Awaitable[PassReply]]
"""Makes the connector's call; its items go to the listener."""


class HeldCall:
    """One call of a connector. `run` makes it; `wait` returns when there is a reply or a question."""

    def __init__(self, principal: str, ask: Ask) -> None:
        self.id = secrets.token_urlsafe(12)
        self.principal = principal
        self.scope = trio.CancelScope(deadline=trio.current_time() + HELD_FOR)
        self.caller: Caller | None = None
        self.waiting = False
        """Whether its client was sent away to answer."""
        self._ask = ask
        self._numbers = 0
        self._open: dict[str, Question] = {}
        self._answers: dict[str, Answered] = {}
        self._answered = trio.Event()
        self._reply: PassReply | DeltaError | None = None
        self._changed = trio.Event()

    async def run(self) -> None:
        """Make the call; what becomes of it is there for `wait`."""
        reply: PassReply | DeltaError = ConnectorFailed("the call ended while its question waited; call again")
        try:
            with self.scope:
                reply = await self._ask(self._listen)
        except DeltaError as error:
            reply = error
        finally:
            self._reply = reply
            self._wake()

    async def wait(self) -> PassReply | None:
        """Return the reply, None where the connector asks something first. Raises what the call raised."""
        while self._reply is None and not self._open:
            await self._changed.wait()
        if isinstance(self._reply, DeltaError):
            raise self._reply
        return self._reply

    @property
    def asked(self) -> Mapping[str, Question]:
        """The open questions by their keys."""
        return self._open

    def answer(self, answers: Mapping[str, Json]) -> None:
        """Give the client's answers; a question that gets none, or one that it cannot have, stays open (spec 1.8)."""
        for key, question in list(self._open.items()):
            answer = answers.get(key)
            if answer is not None and questions.fits(question, answer):
                self._close(key, Answered(result=answer))

    def refuse(self, why: str) -> None:
        """Tell the connector at once that nobody answers."""
        error = exact_json.encode({"code": METHOD_NOT_FOUND, "message": why})
        for key in list(self._open):
            self._close(key, Answered(error=error))

    def _close(self, key: str, answer: Answered) -> None:
        del self._open[key]
        self._answers[key] = answer
        if not self._open:
            self._answered.set()

    async def _listen(self, item: Item) -> Item | None:
        if isinstance(item, wire.Question):
            return await self._put(item)
        if self.caller is not None and not self.waiting:
            await self.caller.listen(item)
        return None

    async def _put(self, item: wire.Question) -> Answer:
        keys: list[str] = []
        for each in alone(item):
            self._numbers += 1
            keys.append(f"q{self._numbers}")
            self._open[keys[-1]] = Question(each.method, named(each))
        self._answered = trio.Event()
        self._wake()
        await self._answered.wait()
        first, *more = (self._answers.pop(key) for key in keys)
        return Answer(first.result, first.error, tuple(more))

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class HeldCalls:
    """The calls that are held. They live in `nursery`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._calls: dict[str, HeldCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, principal: str, ask: Ask) -> HeldCall:
        """Make a connector's call that may be held."""
        call = HeldCall(principal, ask)
        self._nursery.start_soon(call.run)
        return call

    def may_hold(self, call: HeldCall) -> bool:
        """Whether there is room for this call."""
        own = sum(each.principal == call.principal for each in self._calls.values())
        return call.id in self._calls or (len(self._calls) < MOST_HELD and own < MOST_HELD_EACH)

    def find(self, name: str, principal: str) -> HeldCall:
        """Return a call whose client comes back. Raises `RpcError` -32602 where it is not held here (any more)."""
        call = self._calls.get(name)
        if call is None or call.principal != principal:
            raise RpcError(INVALID_PARAMS, "the call that asked is no longer open; call again without requestState")
        return call

    @contextmanager
    def attended(self, call: HeldCall) -> Generator[None, None, None]:
        """For the block a client's request waits for `call`; when it leaves without being sent away, the call ends."""
        call.waiting = False
        try:
            yield
        finally:
            if call.waiting:
                self._calls[call.id] = call
            else:
                self._calls.pop(call.id, None)
                call.scope.cancel()
            self._forget_ended()

    def _forget_ended(self) -> None:
        for name, call in list(self._calls.items()):
            if call.scope.cancelled_caught or call.scope.deadline <= trio.current_time():
                del self._calls[name]

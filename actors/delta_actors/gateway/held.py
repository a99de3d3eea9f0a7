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

from delta_actors.gateway.caller import Caller, named
from delta_actors.mcp import Question, RpcError
from delta_actors.runtime.actor import Listener
from delta_protocol.codecs import exact_json
from delta_protocol.errors import ConnectorFailed, DeltaError
from delta_protocol.jsonrpc import INVALID_PARAMS
from delta_protocol.mcp import questions
from delta_protocol.wire import message as wire
from delta_protocol.wire.message import Answer, Item, Json
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
        self._key = ""
        self._numbers = 0
        self._question: Question | None = None
        self._answer: Answer | None = None
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
        while self._reply is None and self._question is None:
            await self._changed.wait()
        if isinstance(self._reply, DeltaError):
            raise self._reply
        return self._reply

    @property
    def asked(self) -> Mapping[str, Question]:
        """The open question by its key."""
        return {self._key: self._question} if self._question is not None else {}

    def answer(self, answers: Mapping[str, Json]) -> None:
        """Give the client's answers; one that the question cannot have leaves it open (spec 1.8)."""
        question, answer = self._question, answers.get(self._key)
        if question is not None and answer is not None and questions.fits(question, answer):
            self._question = None
            self._answer = Answer(result=answer)
            self._answered.set()

    def refuse(self, why: str) -> None:
        """Tell the connector at once that nobody answers."""
        self._question = None
        self._answer = Answer(error=exact_json.encode({"code": -32601, "message": why}))
        self._answered.set()

    async def _listen(self, item: Item) -> Item | None:
        if isinstance(item, wire.Question):
            return await self._put(item)
        if self.caller is not None and not self.waiting:
            await self.caller.listen(item)
        return None

    async def _put(self, item: wire.Question) -> Answer:
        self._numbers += 1
        self._key, self._question = f"q{self._numbers}", Question(item.method, named(item))
        self._answered = trio.Event()
        self._wake()
        await self._answered.wait()
        assert self._answer is not None
        return self._answer

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

"""Runs one accepted request to its response: the deadline around it, and every error as the protocol wants it said."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio

from delta_actors.mcp.context import Asker, Channel, RequestContext
from delta_actors.mcp.failures import failure_of, retry_after
from delta_actors.mcp.methods import Method, Methods
from delta_actors.mcp.session_state import SessionState
from delta_protocol.jsonrpc import INVALID_PARAMS, Json, encode_error, encode_result
from delta_protocol.mcp import errors, outgoing
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.questions import Question
from delta_protocol.mcp.rounds import LIFETIME, read_rounds
from delta_protocol.mcp.versions import Era
from delta_protocol.wire.message import Principal

_KEPT_STATES = 10_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response's text. `code` is the JSON-RPC error code, None for a result; `retry_after` in seconds."""

    text: bytes
    code: int | None = None
    retry_after: float | None = None


class Running:
    """One request's cancel scope. `withdraw` is the client's cancellation, which the scope's deadline is not."""

    __slots__ = ("scope", "withdrawn")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.withdrawn = False

    def withdraw(self) -> None:
        """Cancel the request; nothing more is sent for it."""
        self.withdrawn = True
        self.scope.cancel()


@dataclass(slots=True)
class Executor:
    """Answers requests of both eras by one table of methods. `logs`: whether handlers' log messages are sent; `eras`:
    which are served; `delta_mcp`: whether clients of delta-mcp 0.x are met in their own way on lines.

    Between requests it keeps only which sealed states were used. `state_key` seals them: with the same key, another
    server can go on with a request that this one began.
    """

    identity: ServerIdentity
    methods: Methods
    deadline: float
    state_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    logs: bool = True
    eras: tuple[Era, ...] = ("legacy", "modern")
    delta_mcp: bool = False
    _redeemed: OrderedDict[str, float] = field(default_factory=OrderedDict[str, float])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def execute(
        self,
        call: IncomingCall,
        channel: Channel,
        ask: Asker | None,
        principal: Principal,
        conversation: str,
        *,
        started: float | None = None,
        session: SessionState | None = None,
        running: Running | None = None,
    ) -> Answer:
        """Return the response to `call`, whose deadline counts from `started` (trio time; now if None).

        `session` is what a legacy client set so far. The request runs in the scope of `running`; withdrawn, its answer
        is that it was late, for nobody to see.

        Raises nothing but cancellation from outside.
        """
        context = RequestContext(
            call,
            channel=channel,
            ask=ask,
            conversation=conversation,
            request=f"{conversation}:{next(self._numbers)}",
            principal=principal,
            deadline=(trio.current_time() if started is None else started) + self.deadline,
            session=SessionState() if session is None else session,
            logs=self.logs,
        )
        # One scope a request: entering one costs as much as the rest of a small call.
        scope = trio.CancelScope() if running is None else running.scope
        scope.deadline = context.deadline
        try:
            with scope:
                method = self.methods.find(call)
                if method.asks and call.era == "modern":
                    result = await self._run_rounds(method, call, context)
                else:
                    result = await method.serve(call, context)
                return Answer(encode_result(call.id, outgoing.shape(self.identity, call.era, call.method, result)))
            return self._late(call)
        except trio.TooSlowError:
            return self._late(call)
        except Exception as error:  # noqa: BLE001 - the boundary: every fault becomes the request's own error
            return failure_answer(call, error, self.identity)
        finally:
            context.close()

    def _late(self, call: IncomingCall) -> Answer:
        reason = f"{call.method} did not finish within {self.deadline:g} s"
        return error_answer(call, RpcError(errors.DEADLINE_EXCEEDED, reason))

    async def _run_rounds(self, method: Method, call: IncomingCall, context: RequestContext) -> Json:
        """Run the handler as far as its first question without an answer (spec 1.8)."""
        now = time.time()
        rounds = read_rounds(self.state_key, call, context.principal.id, now)
        self._redeem(rounds.nonce, now)
        with trio.CancelScope() as asking:

            async def ask(questions: Sequence[Question]) -> Sequence[Json]:
                answers = rounds.take(questions)
                if answers is None:
                    asking.cancel()
                    await trio.sleep_forever()
                    raise AssertionError("not reached")
                await trio.lowlevel.checkpoint()
                return answers

            async def suspend(questions: Mapping[str, Question], state: str) -> None:
                rounds.suspend(questions, state)
                asking.cancel()
                await trio.sleep_forever()

            context.answer_by(ask)
            context.suspend_by(suspend, rounds.carried)
            try:
                return await method.serve(call, context)
            except Exception:
                if not asking.cancel_called:
                    raise
        return rounds.result(self.state_key, call, context.principal.id, now)

    def _redeem(self, nonce: str, now: float) -> None:
        """Let every state count once. Raises `RpcError` for the second use."""
        if not nonce:
            return
        while self._redeemed and (
            next(iter(self._redeemed.values())) < now - LIFETIME or len(self._redeemed) >= _KEPT_STATES
        ):
            self._redeemed.popitem(last=False)
        if nonce in self._redeemed:
            raise RpcError(INVALID_PARAMS, "requestState was used already; call again without it")
        self._redeemed[nonce] = now


def error_answer(call: IncomingCall, error: RpcError, retry_after: float | None = None) -> Answer:
    """Return the error response to `call`."""
    return Answer(encode_error(call.id, error.code, error.message, error.data), error.code, retry_after)


def failure_answer(call: IncomingCall, raised: Exception, identity: ServerIdentity) -> Answer:
    """Return how a handler's exception is told to the client."""
    failure = failure_of(call, raised)
    if isinstance(failure, RpcError):
        wait = retry_after(raised)
        return error_answer(call, failure, wait)
    return Answer(encode_result(call.id, outgoing.shape(identity, call.era, call.method, failure)))

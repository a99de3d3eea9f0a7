"""Runs one accepted request to its response: the deadline around it, and every error as the protocol wants it said."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from delta_actors.mcp.context import Asker, Channel, RequestContext
from delta_actors.mcp.failures import failure_of, retry_after
from delta_actors.mcp.methods import Methods
from delta_actors.mcp.session_state import SessionState
from delta_protocol.codecs.negotiate import Format
from delta_protocol.jsonrpc import INVALID_PARAMS, Json, Request, encode_error, encode_result
from delta_protocol.mcp import delta_mcp, errors, outgoing
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, LegacySession
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.questions import Question
from delta_protocol.mcp.rounds import LIFETIME, Rounds, read_rounds
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


class _Asking:
    """A modern request's questions: those with an answer go on, the first without one ends the round."""

    def __init__(self, rounds: Rounds, scope: trio.CancelScope) -> None:
        self.rounds = rounds
        self.ended = False
        self._scope = scope

    async def ask(self, questions: Sequence[Question]) -> Sequence[Json]:
        """Return the answers, if there are any."""
        answers = self.rounds.take(questions)
        if answers is None:
            await self._end()
            raise AssertionError("not reached")
        await trio.lowlevel.checkpoint()
        return answers

    async def suspend(self, questions: Mapping[str, Question], state: str) -> None:
        """End the round with questions and a state of the handler's own."""
        self.rounds.suspend(questions, state)
        await self._end()

    async def _end(self) -> None:
        self.ended = True
        self._scope.cancel()
        await trio.sleep_forever()


@dataclass(slots=True)
class Executor:
    """Answers requests of both eras by one table of methods. `logs`: whether handlers' log messages are sent; `eras`:
    which are served; `delta_mcp`: whether clients of delta-mcp 0.x are met in their own way.

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

    def begin(
        self, request: Request, session: LegacySession, formats: Collection[Format]
    ) -> tuple[LegacySession, Format, Json]:
        """Return the session that an `initialize` opens, the encoding that its peer was promised of `formats` and JSON,
        and the result. `session` is what the request says in the standard's words."""
        peer = delta_mcp.opened(request, session, formats) if self.delta_mcp else None
        if peer is not None:
            return *peer, delta_mcp.initialize_result(self.identity, formats, peer[1])
        capabilities = self.methods.capabilities("legacy")
        return session, Format.JSON, outgoing.initialize_result(self.identity, session.version, capabilities)

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
        asking: _Asking | None = None
        try:
            with scope:
                method = self.methods.find(call)
                if method.asks and call.era == "modern":
                    asking = self._asking(call, context, scope)
                try:
                    return self._result(call, await method.serve(call, context))
                except Exception:
                    if asking is None or not asking.ended:
                        raise
            if asking is not None and asking.ended:
                return self._result(call, asking.rounds.result(self.state_key, call, principal.id, time.time()))
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

    def _result(self, call: IncomingCall, result: Json) -> Answer:
        return Answer(encode_result(call.id, outgoing.shape(self.identity, call.era, call.method, result)))

    def _asking(self, call: IncomingCall, context: RequestContext, scope: trio.CancelScope) -> _Asking:
        """Let the handler run as far as its first question without an answer (spec 1.8), which cancels `scope`."""
        now = time.time()
        rounds = read_rounds(self.state_key, call, context.principal.id, now)
        self._redeem(rounds.nonce, now)
        asking = _Asking(rounds, scope)
        context.answer_by(asking.ask)
        context.suspend_by(asking.suspend, rounds.carried)
        return asking

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

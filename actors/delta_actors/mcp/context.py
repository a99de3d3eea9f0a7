"""What a handler sees of the request it answers: one neutral context for both eras, stdio and HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

import trio

from delta_actors.mcp.session_state import SessionState
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp import outgoing
from delta_protocol.mcp.errors import ClientCannot
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.levels import Level, reaches
from delta_protocol.mcp.questions import Question, for_era
from delta_protocol.mcp.rounds import Carried
from delta_protocol.mcp.types import ToolDefinition, ToolResult, needed_capability
from delta_protocol.mcp.versions import QUESTIONS, Era
from delta_protocol.wire.message import Principal

Suspender = Callable[[Mapping[str, Question], str], Awaitable[None]]
"""Ends the round with these questions and keeps the state; does not return."""

Asker = Callable[[Sequence[Question]], Awaitable[Sequence[Json]]]
"""Puts questions to the client and returns its results in their order; raises `RpcError` for an error it answered."""


class Channel(Protocol):
    """The way back to the client for one request."""

    async def notify(self, text: bytes) -> None:
        """Send a notification that belongs to this request."""
        ...


@runtime_checkable
class LeavableChannel(Protocol):
    """A channel whose client can come back for the rest (legacy Streamable HTTP)."""

    async def close_stream(self) -> None:
        """End the connection; what is sent from now on waits for the client."""
        ...


class RequestContext:
    """One request, from acceptance to its answer. Handlers run in a cancel scope that ends at `deadline` (trio time).

    `conversation` groups requests: the legacy session, the stdio process, or in the modern era whatever the transport
    derives. `request` is unique within this server's process. `session` is what a legacy client set for its session; a
    modern request has one of its own.
    """

    def __init__(
        self,
        call: IncomingCall,
        *,
        channel: Channel,
        ask: Asker | None,
        conversation: str,
        request: str,
        principal: Principal,
        deadline: float,
        session: SessionState,
        logs: bool,
    ) -> None:
        self._call = call
        self._channel = channel
        self._ask = ask
        self._last_progress: float | None = None
        self._open = True
        self.conversation = conversation
        self.request = request
        self.principal = principal
        self.deadline = deadline
        self.session = session
        self._logs = logs
        self._suspend: Suspender | None = None
        self._carried: Carried | None = None
        self._begin: Callable[[], None] | None = None
        self._say: Callable[[str], None] | None = None

    @property
    def era(self) -> Era:
        """`legacy` (initialize handshake) or `modern` (per-request metadata)."""
        return self._call.era

    @property
    def protocol_version(self) -> str:
        """The revision this request is answered in."""
        return self._call.version

    @property
    def client_name(self) -> str:
        """The client's name as it gave it; empty if it gave none."""
        return self._call.client

    @property
    def client_capabilities(self) -> tuple[str, ...]:
        """What the client declared, as dotted names (`elicitation.form`, `sampling`, `roots`, ...)."""
        return self._call.capabilities

    @property
    def wants_progress(self) -> bool:
        """Whether the client gave a progress token."""
        return self._call.progress_token is not None

    @property
    def traceparent(self) -> str:
        """W3C trace context, or empty."""
        return self._call.traceparent

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far the request is.

        Does nothing without a token, after the answer, or for a value that does not grow (spec 1.13, acceptance 47).
        """
        if self._say is not None and message:
            self._say(message)
        token = self._call.progress_token
        if token is None or not self._open:
            await trio.lowlevel.checkpoint()
            return
        if self._last_progress is not None and progress <= self._last_progress:
            await trio.lowlevel.checkpoint()
            return
        self._last_progress = progress
        await self._channel.notify(outgoing.progress_notification(token, progress, total, message))

    async def begin_task(self) -> bool:
        """Let the request be answered now and go on as a task, where the tool has `task` and the client takes part.

        From then on the handler lives until its end of life (`deadline`), its questions wait in the task, and the
        message of `progress` is the task's. Returns whether it is one; ask what must be known before it begins.
        """
        if self._begin is not None:
            self._begin()
        await trio.lowlevel.checkpoint()
        return self._say is not None

    async def close_stream(self) -> None:
        """Let the client go for now: over legacy HTTP it comes back by itself and is given what was sent meanwhile.

        For long calls behind proxies that cut connections. Elsewhere it does nothing.
        """
        if isinstance(self._channel, LeavableChannel):
            await self._channel.close_stream()
        else:
            await trio.lowlevel.checkpoint()

    @property
    def log_level(self) -> Level | None:
        """From which level on the client wants log messages, None for none at all."""
        if not self._logs:
            return None
        return self.session.log_level if self.era == "legacy" else self._call.log_level

    def would_log(self, level: Level) -> bool:
        """Whether `log` would send a message of that level."""
        if not self._logs or not self._open:
            return False
        threshold = self.log_level
        return threshold is not None and reaches(level, threshold)

    async def log(self, level: Level, data: Any, logger: str = "") -> None:  # noqa: ANN401 - any JSON value
        """Send the client a log message, if it wants that level. `data` is text or any JSON value, without secrets."""
        if self.would_log(level):
            await self._channel.notify(outgoing.log_notification(level, data, logger))
        else:
            await trio.lowlevel.checkpoint()

    async def ask_client(self, method: str, params: Json = b"{}", *, key: str = "") -> Json:
        """Ask the client (`elicitation/create`, `sampling/createMessage`, `roots/list`) and return its result.

        See `ask`, which takes ready-made questions and several at once.
        """
        return (await self.ask(Question(method, params, key)))[0]

    async def ask(self, *questions: Question) -> Sequence[Json]:
        """Ask the client all of `questions` at once and return its results in the same order.

        In the modern era the call ends with `input_required` and the handler runs again from its start once the answer
        is there; then this returns it at once. So a handler must not act before its last question (spec 1.19).

        Raises `ClientCannot` at once where the client did not declare it, `RpcError` where it answered with an error.
        """
        for question in questions:
            self._check(question)
        if self._ask is None:
            raise ClientCannot(questions[0].method, "this connection has no way back to the client")
        return await self._ask([for_era(question, self.era) for question in questions])

    @property
    def can_suspend(self) -> bool:
        """Whether `suspend` works: in the modern era, for a call that is no task."""
        return self._suspend is not None

    @property
    def carried(self) -> Carried | None:
        """In a later round: the state that `suspend` was given, and the client's answers."""
        return self._carried

    async def suspend(self, questions: Mapping[str, Question], state: str) -> NoReturn:
        """End this round with questions, by key; in the next one `carried` gives `state` and the answers back.

        For a handler that keeps its own rounds: one that asks on behalf of another server. The state is sealed, bound
        to principal and call, and good for one use; the client can read it. Raises `ClientCannot`.
        """
        for question in questions.values():
            self._check(question)
        assert self._suspend is not None
        await self._suspend({key: for_era(question, self.era) for key, question in questions.items()}, state)
        raise AssertionError("not reached")

    def suspend_by(self, suspend: Suspender, carried: Carried | None) -> None:
        """Have `suspend` end the round."""
        self._suspend, self._carried = suspend, carried

    def _check(self, question: Question) -> None:
        if question.method not in QUESTIONS:
            raise ClientCannot(question.method, "a server may not ask this")
        needed = needed_capability(question.method, question.params)
        if needed not in self.client_capabilities:
            raise ClientCannot(question.method, f"the client did not declare {needed}", needed)

    def task_by(self, begin: Callable[[], None]) -> None:
        """Have `begin_task` call `begin`."""
        self._begin = begin

    def become_task(self, deadline: float, ask: Asker, say: Callable[[str], None]) -> None:
        """Go on as a task until `deadline` (trio time)."""
        self.deadline = deadline
        self._ask = ask
        self._suspend = None
        self._say = say

    def answer_by(self, ask: Asker) -> None:
        """Have questions answered by `ask` from now on."""
        self._ask = ask

    def close(self) -> None:
        """The answer is made: nothing more is sent for this request."""
        self._open = False


class ToolSource(Protocol):
    """Where a server's tools come from. Both methods run in the request's own scope."""

    async def list_tools(self, context: RequestContext) -> Sequence[ToolDefinition | Json]:
        """Return the tools in a stable order; bytes are a tool's JSON text."""
        ...

    async def call_tool(self, name: str, arguments: Json, context: RequestContext) -> ToolResult | Json:
        """Run a tool and return its result; bytes are a whole CallToolResult's JSON text.

        `arguments` is the JSON text of an object. Raises `UnknownTool`. A `DeltaError` becomes a result with
        `isError`, except `Overloaded` and `DeadlineExceeded`, which become protocol errors.
        """
        ...

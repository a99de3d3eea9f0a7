"""One outgoing request while it is open: what arrives for it, and how its caller's task works through that.

Progress is handled in the caller's own task, in order, and questions beside it, each as it comes, so a slow callback
delays only its own call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from delta_actors.mcp.background import background
from delta_protocol.jsonrpc import Json, Response
from delta_protocol.mcp.errors import McpError, NoReply, NotSent, RpcError

OnProgress = Callable[[float, float | None, str], Awaitable[None]]
"""Takes progress, total, message."""
OnQuestion = Callable[[str, Json], Awaitable[Json]]
"""Takes method and params of the server's question, returns the result; refuses by `RpcError` or `ClientCannot`."""

OnNotification = Callable[[str, Json], None]
"""Takes method and params of a notification, without waiting."""

ASKING = frozenset({"tools/call", "tasks/result", "prompts/get", "resources/read"})
"""Requests that may make a server ask its client (spec 1.8)."""

_KEPT_PROGRESS = 64
_MESSAGE_SHOWN = 4000
"""Characters of a peer's error message that are passed on."""


class OpenCall:
    """A request that has no answer yet."""

    def __init__(
        self,
        *,
        may_ask: bool,
        on_progress: OnProgress | None,
        on_question: OnQuestion | None,
        on_notification: OnNotification | None = None,
    ) -> None:
        self.may_ask = may_ask
        """Whether the server may ask something for its sake."""
        self.on_progress = on_progress
        self.on_question = on_question
        self.on_notification = on_notification
        """Takes what else belongs to this request alone: by its stream, or by its subscription."""
        self.questions = 0
        """How many of the server's questions wait for its caller's answers."""
        self.sent = False
        """Whether the whole message may have reached the peer."""
        self.abandoned = False
        self._done = trio.Event()
        self._wake = trio.Event()
        self._progress: deque[tuple[float, float | None, str]] = deque(maxlen=_KEPT_PROGRESS)
        self._questions: deque[tuple[str, Json, trio.MemorySendChannel[Json | Exception]]] = deque()
        self._response: Response | None = None
        self._lost: McpError = NoReply("no answer")

    def take_progress(self, progress: float, total: float | None, message: str) -> None:
        """Progress arrived. Only the newest are kept where the callback is slow."""
        if self.on_progress is not None:
            self._progress.append((progress, total, message))
            self._wake.set()

    def take_response(self, response: Response) -> None:
        """The answer arrived. A second one to the same request is dropped."""
        if not self.done:
            self._response = response
            self._finish()

    def lose(self, reason: McpError | str) -> None:
        """There will be no answer: for this reason, or because the connection ended, as the text says."""
        if isinstance(reason, str):
            reason = NoReply(reason) if self.sent else NotSent(reason)
        self._lost = reason
        self._finish()

    @property
    def done(self) -> bool:
        """Whether an answer, or the reason for none, is there."""
        return self._done.is_set()

    async def ask(self, method: str, params: Json) -> Json:
        """Have the caller's task answer a question of the server. Raises what its callback raised."""
        answer, answered = trio.open_memory_channel[Json | Exception](1)
        self._questions.append((method, params, answer))
        self._wake.set()
        self.questions += 1
        try:
            async with answered:
                result = await answered.receive()
        finally:
            self.questions -= 1
        if isinstance(result, Exception):
            raise result
        return result

    async def result(self) -> Json:
        """Work through what arrives until the answer, and return its result.

        Raises `RpcError` with the peer's error, `NotSent` or `NoReply` where the connection ended first.
        """
        if self.on_question is None:
            await self._work(None)
        else:
            async with background() as answering:
                await self._work(answering)
        for _, _, answer in self._questions:
            answer.close()
        return self._outcome()

    async def _work(self, answering: trio.Nursery | None) -> None:
        while not self._done.is_set() or self._progress:
            await self._wake.wait()
            self._wake = trio.Event()
            if self._done.is_set():
                self._wake.set()
            while self._progress and self.on_progress is not None:
                await self.on_progress(*self._progress.popleft())
            while self._questions and answering is not None and not self._done.is_set():
                answering.start_soon(self._answer, *self._questions.popleft())

    async def _answer(self, method: str, params: Json, answer: trio.MemorySendChannel[Json | Exception]) -> None:
        assert self.on_question is not None
        with answer:
            try:
                result: Json | Exception = await self.on_question(method, params)
            except McpError as error:
                result = error
            answer.send_nowait(result)

    def _finish(self) -> None:
        self._done.set()
        self._wake.set()

    def _outcome(self) -> Json:
        if self._response is None:
            raise self._lost
        error = self._response.error
        if error is not None:
            raise RpcError(error.code, _shown(error.message), bytes(error.data) if error.data else None)
        assert self._response.result is not None
        return self._response.result


def _shown(message: str) -> str:
    cut = len(message) > _MESSAGE_SHOWN
    return f"{message[:_MESSAGE_SHOWN]}... ({len(message)} characters in all)" if cut else message

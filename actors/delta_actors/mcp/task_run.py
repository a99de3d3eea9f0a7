"""One tool call that may become a task: its handler runs in the server's nursery, its request waits beside it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
import trio

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.failures import failure_of
from delta_protocol.jsonrpc import INTERNAL_ERROR, Json
from delta_protocol.mcp import tasks
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.questions import Question
from delta_protocol.mcp.tasks import Task

Serve = Callable[[], Awaitable[Json]]


class TaskRun:
    """The handler, and the task that it becomes when it begins one. Until then it ends with its request.

    `moved` is called whenever the task changed.
    """

    def __init__(self, call: IncomingCall, context: RequestContext, task: Task, moved: Callable[[Task], None]) -> None:
        self.task = task
        self.conversation = context.conversation
        self._call = call
        self._context = context
        self._moved = moved
        self._scope = trio.CancelScope()
        self._settled = trio.Event()
        self._ended = trio.Event()
        self._changed = trio.Event()
        self._begun = False
        self._asking = False
        self._result: Json | None = None
        self._raised: Exception | None = None
        self._refusal: RpcError | None = None

    async def until_settled(
        self, nursery: trio.Nursery, serve: Serve, runs: dict[str, TaskRun], *, at_once: bool
    ) -> Json:
        """Start the handler in `nursery` and wait for its result, or until it begins a task, which is put into `runs`.

        `at_once` begins it before the handler runs. Raises what the handler raised before it began a task. Being
        cancelled before that cancels the handler.
        """

        def begin() -> None:
            runs[self.task.id] = self
            self._begin()

        if at_once:
            begin()
        else:
            self._context.task_by(begin)
        nursery.start_soon(self._run, serve)
        try:
            await self._settled.wait()
        finally:
            if not self._begun:
                self._scope.cancel()
                with trio.CancelScope(shield=True):
                    await self._ended.wait()
        if self._begun:
            return self._created()
        if self._raised is not None:
            raise self._raised
        if self._result is None:
            raise RpcError(INTERNAL_ERROR, f"{self._call.method}: the server is stopping")
        return self._result

    def _created(self) -> Json:
        if self._call.era == "modern":
            return tasks.created_result(self.task)
        return msgspec.json.encode({"task": tasks.legacy(self.task)})

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._scope.deadline = trio.current_time() + self.task.ttl / 1000
        self._context.become_task(self._scope.deadline, self._ask, self._say)
        self._settled.set()

    async def _run(self, serve: Serve) -> None:
        try:
            with self._scope:
                self._result = await serve()
        except Exception as error:  # noqa: BLE001 - the boundary: the handler's fault becomes its call's answer
            self._raised = error
        finally:
            self._context.close()
            if self._begun:
                self._finish()
            self._settled.set()
            self._ended.set()

    def _finish(self) -> None:
        now = time.time()
        if self._raised is not None:
            failure = failure_of(self._call, self._raised)
            if isinstance(failure, RpcError):
                self.task.fail(failure, now)
            else:
                self.task.complete(failure, now)
        elif self._result is not None:
            self.task.complete(self._result, now)
        else:
            self.task.cancel(now)
        self._tell()

    def _tell(self) -> None:
        self._wake()
        self._moved(self.task)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _say(self, message: str) -> None:
        self.task.say(message, time.time())
        self._tell()

    async def _ask(self, questions: Sequence[Question]) -> Sequence[Json]:
        keys = self.task.ask(questions, time.time())
        self._tell()
        while (answers := self.task.take(keys)) is None:
            if self._refusal is not None:
                refusal, self._refusal = self._refusal, None
                raise refusal
            await self._changed.wait()
        return answers

    def answer(self, responses: Mapping[str, Json]) -> None:
        """Give the handler what answers its questions. Raises `RpcError` -32602 for what cannot be an answer."""
        self.task.answer(responses, time.time())
        self._tell()

    def cancel(self) -> bool:
        """End the task as cancelled; False where it had ended already."""
        if not self.task.cancel(time.time()):
            return False
        self._scope.cancel()
        self._tell()
        return True

    def end(self) -> None:
        """Its life is over: whatever still runs is cancelled."""
        self.cancel()

    async def until_final(self, context: RequestContext) -> None:
        """Wait for the end, putting the task's questions to the client of `context` meanwhile (spec 3.5)."""
        while not self.task.final:
            changed = self._changed
            if self.task.questions and not self._asking:
                await self._put_questions(context)
            else:
                await changed.wait()

    async def _put_questions(self, context: RequestContext) -> None:
        self._asking = True
        asked = dict(self.task.questions)
        try:
            answers = await context.ask(*(tasks.about(self.task, question, key) for key, question in asked.items()))
        except RpcError as error:
            self._refusal = error
            self.task.withdraw(tuple(asked), time.time())
            self._tell()
        else:
            self.answer(dict(zip(asked, answers, strict=True)))
        finally:
            self._asking = False
            # Whoever waits beside this one may put what is asked by now.
            self._wake()

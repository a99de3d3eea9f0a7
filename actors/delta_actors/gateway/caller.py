"""One tool call as the gateway's functions see it: its deadline, its progress, and the way back to its client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import trio

from delta_actors.mcp import ClientCannot, RequestContext, RpcError
from delta_actors.runtime.current import speaking_for
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_object
from delta_protocol.mcp.levels import read_level
from delta_protocol.wire.message import Answer, Answered, Item, Json, LogMessage, Origin, Progress, Question

PROGRESS_EVERY = 5.0
"""Seconds; a client that was promised progress hears of it at least every ten (acceptance 46)."""

_LITTLE = 1e-6
_METHOD_NOT_FOUND = -32601
_ELICIT = "elicitation/create"


class Caller:
    """A client's call. `deadline` (trio time) is when its answer must be ready, shortly before the client's own.

    `exact`: a connector's progress is told as it is, number by number; else it goes into words and the numbers count.
    """

    def __init__(self, context: RequestContext, longest: float, *, exact: bool = False) -> None:
        now = trio.current_time()
        left = min(context.deadline - now, longest)
        self.deadline = now + left - min(2.0, left / 20)
        self.conversation = context.conversation
        self._context = context
        self._doing = ""
        self._exact = exact
        self._changing = False
        self._count = 0.0
        self._total: float | None = None

    async def listen(self, item: Item) -> Item | None:
        """Pass progress on to the client, and a connector's question with its answer back."""
        if isinstance(item, Progress):
            await self._progress(item)
        elif isinstance(item, LogMessage):
            await self._log(item)
        elif isinstance(item, Question):
            first = await self._ask(item)
            more = [await self._ask(each) for each in alone(item)[1:]]
            return Answer(first.result, first.error, tuple(Answered(each.result, each.error) for each in more))
        return None

    def changing(self) -> None:
        """From now on changes are made. A client that is asked in rounds is asked no more: its answer would begin
        everything anew.
        """
        self._changing = True

    async def _progress(self, item: Progress) -> None:
        if self._exact:
            self._count, self._total, self._doing = item.progress, item.total, item.message
            await self._context.progress(item.progress, item.total, item.message)
        else:
            self._doing = _said(item) or self._doing
            await self._tell()

    async def _log(self, item: LogMessage) -> None:
        with contextlib.suppress(RpcError):
            await self._context.log(read_level(item.level), msgspec.Raw(item.data), item.logger)

    async def doing(self, what: str) -> None:
        """Say what happens now."""
        self._doing = what
        if self._context.wants_progress:
            await self._tell()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None, None]:
        """Speak for the client in this block, and let it hear that the call is alive."""
        context = self._context
        origin = Origin(
            context.conversation,
            context.request,
            context.client_name,
            context.wants_progress,
            context.client_capabilities,
            context.log_level or "",
        )
        with speaking_for(context.principal, origin, context.traceparent):
            if not context.wants_progress:
                yield
                return
            raised: Exception | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_telling)
                try:
                    yield
                except Exception as error:  # noqa: BLE001 - raised again outside, where no group wraps it
                    raised = error
                nursery.cancel_scope.cancel()
            if raised is not None:
                raise raised

    async def _keep_telling(self) -> None:
        while True:
            await trio.sleep(PROGRESS_EVERY)
            await self._tell()

    async def _tell(self) -> None:
        # Between a connector's own numbers there is always room for a sign of life.
        self._count += _LITTLE if self._exact else 1
        await self._context.progress(self._count, self._total, self._doing)

    async def _ask(self, question: Question) -> Answer:
        if self._changing and self._context.can_suspend:
            why = "its client cannot be asked while changes are made; ask when the task is planned, or call it directly"
            return Answer(error=exact_json.encode({"code": _METHOD_NOT_FOUND, "message": why}))
        try:
            return Answer(result=await self._context.ask_client(question.method, named(question)))
        except ClientCannot as error:
            return Answer(error=exact_json.encode({"code": _METHOD_NOT_FOUND, "message": error.message}))
        except RpcError as error:
            return Answer(error=exact_json.encode({"code": error.code, "message": error.message}))


def _said(item: Progress) -> str:
    """Return what a client is told of progress; a connector's own count goes into words, since ours must only grow."""
    if item.total is None:
        return item.message
    return f"{item.message} ({item.progress:g} of {item.total:g})".lstrip()


def alone(question: Question) -> list[Question]:
    """Return what a question asks one by one."""
    more = [Question(question.connector, each.method, each.params) for each in question.more]
    return [Question(question.connector, question.method, question.params), *more]


def named(question: Question) -> Json:
    """Return the params of a question, with the connector's name in the text that a person reads (acceptance 51)."""
    params = exact_json.decode(question.params, what="a question")
    if question.method != _ELICIT or not is_object(params) or not isinstance(params.get("message"), str):
        return question.params
    return exact_json.encode({**params, "message": f"{question.connector} asks: {params['message']}"})

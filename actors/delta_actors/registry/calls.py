"""What became of a call: a client's answer or error as the one outcome that the journal and programs go by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import trio

from delta_actors.mcp import CallToolReply, ClientCannot, DeltaClient, McpError, NotSent, OnQuestion, RpcError
from delta_actors.runtime.actor import Call
from delta_protocol.catalogue import results
from delta_protocol.errors import DeltaError
from delta_protocol.mcp.errors import TaskFailed
from delta_protocol.wire.message import Answer, Answered, Asked, Json, Progress, Question, Role
from delta_protocol.wire.registry import Outcome, ToolReply

NEEDED = {
    "elicitation/create": ("elicitation.form", "elicitation.url"),
    "sampling/createMessage": ("sampling",),
    "roots/list": ("roots",),
}
"""What a client must have declared for each question; one of several is enough."""

NOT_RUN = frozenset({-32700, -32600, -32601, -32602})
"""JSON-RPC errors about the request itself; any other may come from a tool that had begun."""

PROGRESS_LIMIT = 1.0
GATHERING = 0.03
"""Seconds in which several questions of one call count as asked at the same moment."""

DECLARED: dict[str, dict[str, dict[str, dict[str, str]]]] = {
    "elicitation.form": {"elicitation": {"form": {}}},
    "elicitation.url": {"elicitation": {"url": {}}},
    "sampling": {"sampling": {}},
    "sampling.tools": {"sampling": {"tools": {}}},
    "sampling.context": {"sampling": {"context": {}}},
    "roots": {"roots": {}},
}
"""Capabilities that can be passed on to a connector, as its client declares them."""


def answered(reply: CallToolReply) -> ToolReply:
    """Return the outcome of a call that was answered."""
    if reply.is_error:
        return ToolReply(Outcome.TOOL_ERROR, reply.result, results.text(reply.result) or "the tool reports an error")
    return ToolReply(Outcome.OK, reply.result)


def failed(error: McpError, *, planned: bool = False) -> ToolReply:
    """Return the outcome of a call that was not answered with a result.

    For a `planned` call an error that may come from within the tool is the tool's own: it may have changed something.
    """
    if isinstance(error, RpcError):
        begun = planned and (isinstance(error, TaskFailed) or error.code not in NOT_RUN)
        return ToolReply(Outcome.TOOL_ERROR if begun else Outcome.REFUSED, message=str(error))
    if isinstance(error, NotSent):
        return ToolReply(Outcome.NOT_SENT, message=error.message, retry_after=error.retry_after)
    return ToolReply(Outcome.NO_REPLY, message=error.message)


async def make(
    client: DeltaClient,
    tool: str,
    arguments: Json,
    call: Call,
    on_question: OnQuestion | None,
    awaited: Callable[[], bool] = lambda: True,
    meta: Mapping[str, Any] | None = None,
) -> ToolReply:
    """Call the tool. Progress goes down `call` where its client wants it, as long as somebody waits for the call.

    Raises `NotSent` or `NoReply`.
    """

    async def progress(done: float, total: float | None, message: str) -> None:
        # A caller who takes no progress must not keep the answer from arriving.
        with trio.move_on_after(PROGRESS_LIMIT):
            if awaited():
                await call.emit(Progress(done, total, message))

    wanted = call.origin is not None and call.origin.progress
    try:
        return answered(
            await client.call_tool(
                tool, arguments, on_progress=progress if wanted else None, on_question=on_question, meta=meta
            )
        )
    except RpcError as error:
        return failed(error, planned=call.caller == Role.JOURNAL)


def patient(limit: trio.CancelScope, on_question: OnQuestion | None) -> OnQuestion | None:
    """Return `on_question` so that `limit` waits while it does: a person's time is not the connector's."""
    if on_question is None:
        return None
    answer = on_question

    async def ask(method: str, params: Json) -> Json:
        left = limit.deadline - trio.current_time()
        limit.deadline = math.inf
        try:
            return await answer(method, params)
        finally:
            limit.deadline = trio.current_time() + left

    return ask


def questions(connector: str, call: Call) -> OnQuestion:
    """Return what takes a connector's questions up to the client behind `call` (three-tools 14).

    A client that did not declare what is needed gives the connector an error at once. What is asked at the same moment
    goes up together, so that a client that is asked in rounds answers it in one.
    """
    gathered: list[_Gathered] = []

    async def ask(method: str, params: Json) -> Json:
        declared = call.origin.capabilities if call.origin else ()
        needed = NEEDED.get(method, ())
        if not any(name in declared for name in needed):
            raise ClientCannot(method, "the client cannot answer this", needed[0] if needed else "")
        mine = _Gathered(Asked(method, params))
        gathered.append(mine)
        if len(gathered) == 1:
            await trio.sleep(GATHERING)
            taken = tuple(gathered)
            gathered.clear()
            await _put(connector, call, taken)
        else:
            await mine.done.wait()
        if mine.answer is None or mine.answer.result is None:
            raise _refusal(method, mine.answer.error if mine.answer is not None else None)
        return mine.answer.result

    return ask


class _Gathered:
    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answered | None = None
        self.done = trio.Event()


async def _put(connector: str, call: Call, taken: tuple[_Gathered, ...]) -> None:
    """Ask everything at once and give each its answer; one without an answer got none."""
    first, *more = taken
    question = Question(connector, first.asked.method, first.asked.params, tuple(each.asked for each in more))
    try:
        answer = await call.question(question)
        if isinstance(answer, Answer):
            answers = (Answered(answer.result, answer.error), *answer.more)
            for each, one in zip(taken, answers, strict=False):
                each.answer = one
    except DeltaError as error:
        raise ClientCannot(first.asked.method, error.message) from None
    finally:
        for each in taken:
            each.done.set()


class _Refusal(msgspec.Struct):
    code: int = -32603
    message: str = "the client gave no answer"


def _refusal(method: str, error: Json | None) -> McpError:
    try:
        refusal = msgspec.json.decode(error or b"{}", type=_Refusal)
    except msgspec.DecodeError:
        return ClientCannot(method, "the client's answer cannot be read")
    return RpcError(refusal.code, refusal.message)


def declaration(capabilities: tuple[str, ...]) -> Json:
    """Return the ClientCapabilities object for declared names (`Origin.capabilities`) that can be passed on."""
    declared: dict[str, dict[str, dict[str, str]]] = {}
    for name in capabilities:
        for key, value in DECLARED.get(name, {}).items():
            declared.setdefault(key, {}).update(value)
    return msgspec.json.encode(declared)

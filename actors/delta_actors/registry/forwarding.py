"""A client's own request on its way through a session: what it declares goes along, what is told for it comes back."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import trio

from delta_actors.mcp import DeltaClient, McpError, OnQuestion, RpcError
from delta_actors.mcp.background import background
from delta_actors.mcp.client_calls import OnNotification
from delta_actors.mcp.client_tasks import call_tool
from delta_actors.registry import calls
from delta_actors.registry.offers import parts
from delta_actors.registry.session import LOG_MESSAGE, Session
from delta_actors.runtime.actor import Call
from delta_protocol.mcp.levels import Level, reaches, read_level
from delta_protocol.mcp.tasks import EXTENSION
from delta_protocol.mcp.versions import META_CAPABILITIES, META_LOG_LEVEL
from delta_protocol.wire.message import Json, LogMessage, Progress
from delta_protocol.wire.registry import Outcome, PassReply

_KEPT_LOGS = 64
"""Log messages that wait for a slow client; what comes then is dropped."""


async def forward(
    session: Session,
    client: DeltaClient,
    method: str,
    params: Json,
    call: Call,
    on_question: OnQuestion | None,
    on_task_question: OnQuestion | None,
) -> PassReply:
    """Make the request and return the answer as it came, that of a task once it has ended. Raises `NotSent` or
    `NoReply`."""

    async def progress(done: float, total: float | None, message: str) -> None:
        # A caller who takes no progress must not keep the answer from arriving.
        with trio.move_on_after(calls.PROGRESS_LIMIT):
            await call.emit(Progress(done, total, message))

    wanted = call.origin is not None and call.origin.progress
    await _set_level(session, client, call)
    try:
        async with _hearing(session, client, call) as take:
            request = partial(client.request, method)
            if method == "tools/call":
                request = partial(call_tool, client, on_task_question=on_task_question)
            result = await request(
                params,
                on_progress=progress if wanted else None,
                on_question=on_question,
                on_notification=take,
                meta=meta_of(client, call),
            )
    except RpcError as error:
        return PassReply(Outcome.REFUSED, error=_error_object(error), message=error.message)
    return PassReply(Outcome.OK, result)


def meta_of(client: DeltaClient, call: Call) -> dict[str, Any]:
    """Return what a modern request says of the client behind it: what it can be asked, which log messages it wants.

    Nothing is declared that the client did not declare, and nothing that cannot be passed on (spec 1.20); but tasks
    are, which are followed here to their end.
    """
    if client.era == "legacy":
        return {}
    origin = call.origin
    declared = calls.declaration(origin.capabilities if origin else ())
    capabilities = msgspec.json.decode(declared, type=dict[str, msgspec.Raw])
    meta: dict[str, Any] = {META_CAPABILITIES: {**capabilities, "extensions": {EXTENSION: {}}}}
    if origin is not None and origin.log:
        meta[META_LOG_LEVEL] = origin.log
    return meta


class _Told(msgspec.Struct):
    level: str
    data: msgspec.Raw
    logger: str = ""


@asynccontextmanager
async def _hearing(session: Session, client: DeltaClient, call: Call) -> AsyncGenerator[OnNotification, None]:
    """Give what takes notifications of the request's own; its log messages go to the client behind `call`."""
    if call.origin is None or not call.origin.log:

        def leave_logs(method: str, params: Json) -> None:
            if method != LOG_MESSAGE:
                client.take_notification(method, params)

        yield leave_logs
        return
    send, receive = trio.open_memory_channel[LogMessage](_KEPT_LOGS)

    def take(method: str, params: Json) -> None:
        if method != LOG_MESSAGE:
            client.take_notification(method, params)
        else:
            with contextlib.suppress(msgspec.DecodeError, RecursionError, trio.WouldBlock):
                told = msgspec.json.decode(params, type=_Told)
                send.send_nowait(LogMessage(told.level, told.logger, bytes(told.data)))

    async def pump(done: trio.Event) -> None:
        async for message in receive:
            await call.emit(message)
        done.set()

    async with background() as nursery:
        done = trio.Event()
        nursery.start_soon(pump, done)
        with session.heard_by(take):
            yield take
        # What was told before the answer reaches the client before the answer.
        send.close()
        with trio.move_on_after(calls.PROGRESS_LIMIT):
            await done.wait()


async def _set_level(session: Session, client: DeltaClient, call: Call) -> None:
    """Have a legacy server log as much as somebody wants; each client is then sent what it asked for."""
    wanted = _level(call.origin.log if call.origin else "")
    if client.era == "modern" or wanted is None or "logging" not in parts(client.capabilities):
        return
    if session.log_level is not None and reaches(wanted, session.log_level):
        return
    session.log_level = wanted
    with contextlib.suppress(McpError):
        await client.request("logging/setLevel", msgspec.json.encode({"level": wanted}))


def _level(name: str) -> Level | None:
    try:
        return read_level(name)
    except RpcError:
        return None


def _error_object(error: RpcError) -> Json:
    body: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = msgspec.Raw(error.data)
    return msgspec.json.encode(body)

"""The client's end of a connection that carries messages both ways: calls, answers, what the server asks and tells.

Reader and writer are independent of each other (acceptance 34). The writer alone sends, so a cancelled call never
leaves half a message.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import deque

import msgspec
import trio

from delta_actors.mcp.client_calls import ASKING, OnNotification, OnProgress, OnQuestion, OpenCall
from delta_protocol import jsonrpc
from delta_protocol.codecs import compact
from delta_protocol.errors import Invalid
from delta_protocol.jsonrpc import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Id,
    Json,
    Malformed,
    Notification,
    Request,
    Response,
)
from delta_protocol.mcp.errors import ClientCannot, McpError, NoReply, NotSent, RpcError
from delta_protocol.mcp.handshake import with_meta
from delta_protocol.mcp.incoming import decode_member, read_meta, read_object
from delta_protocol.mcp.lines import LineTooLong
from delta_protocol.mcp.outgoing import cancelled_notification
from delta_protocol.mcp.versions import META_PROGRESS_TOKEN, META_SUBSCRIPTION, QUESTIONS

_QUEUED = 64
_CONTROL_QUEUED = 1024
_MOST_QUESTIONS = 16
"""Questions of the server that may wait for answers at once."""


class _Progress(msgspec.Struct, rename="camel"):
    progress_token: Id
    progress: float
    total: float | None = None
    message: str | None = None


class MessageClient(ABC):
    """JSON-RPC with one server. `run` must run for its whole life; `request` may be called concurrently."""

    def __init__(self) -> None:
        self.junk_lines = 0
        self.on_notification: OnNotification = lambda _method, _params: None
        self.closed = trio.Event()
        self.close_reason = ""
        self.compact = False
        """Whether lines are written as compact-json (delta-mcp 0.x); both forms are understood once it may come."""
        self.may_be_compact = False
        self._calls: dict[Id, OpenCall] = {}
        self._ids = itertools.count(1)
        self._queue: deque[tuple[bytes, OpenCall | None]] = deque()
        self._slots = trio.Semaphore(_QUEUED)
        self._wake = trio.Event()
        self._idle = False

    async def run(self) -> None:
        """Read and write until the server is gone, then end every open call with the reason."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.watch)
            nursery.start_soon(self._write)
            async with trio.open_nursery() as questions:
                try:
                    await self._read(questions)
                    self.close_reason = f"the connection ended: {await self.why_ended()}"
                finally:
                    self._close()
                questions.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    @property
    def pid(self) -> int | None:
        """The process's id, where there is one."""
        return None

    @property
    def stderr_tail(self) -> str:
        """The last of its stderr."""
        return ""

    @abstractmethod
    async def watch(self) -> None:
        """Do what the connection needs beside reading and writing, until cancelled."""

    @abstractmethod
    async def why_ended(self) -> str:
        """Return why there is nothing more to read."""

    @abstractmethod
    def write_at_once(self, text: bytes) -> bool:
        """Send a message without waiting, whole or not at all; return whether it was sent."""

    @abstractmethod
    async def write(self, text: bytes, call: OpenCall | None) -> bool:
        """Send a message, and mark its call as sent once it may be carried out; return False where nobody reads."""

    @abstractmethod
    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the next messages, possibly none; None after the end."""

    async def wait_closed(self) -> str:
        """Return, with the reason, once the server is gone."""
        await self.closed.wait()
        return self.close_reason

    async def request(
        self,
        method: str,
        params: Json,
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        on_notification: OnNotification | None = None,
        announce_cancel: bool = True,
    ) -> Json:
        """Send a request and return the result's JSON text.

        `on_notification` takes what names the request as its subscription; on lines nothing else names one.
        Raises `RpcError`, `NotSent`, `NoReply`. Cancelling tells the server by `notifications/cancelled`, unless
        nothing was sent yet or `announce_cancel` is off.
        """
        identity = next(self._ids)
        if on_progress is not None:
            params = with_meta(params, {META_PROGRESS_TOKEN: identity})
        call = OpenCall(
            may_ask=method in ASKING,
            on_progress=on_progress,
            on_question=on_question,
            on_notification=on_notification,
        )
        await self._slots.acquire()
        if self.closed.is_set():
            self._slots.release()
            raise NotSent(self.close_reason)
        self._calls[identity] = call
        self._post(jsonrpc.single_line(jsonrpc.encode_request(identity, method, params)), call)
        try:
            return await call.result()
        finally:
            # However it came: a nursery hands on a cancellation as a group, and a callback may have failed.
            if not call.done:
                call.abandoned = True
                if call.sent and announce_cancel:
                    self._post(cancelled_notification(identity, "cancelled by the caller"), None)
            del self._calls[identity]

    def notify(self, method: str, params: Json | None = None) -> None:
        """Queue a notification."""
        self._post(jsonrpc.encode_notification(method, params), None)

    def _post(self, text: bytes, call: OpenCall | None) -> None:
        if call is None and len(self._queue) >= _CONTROL_QUEUED:
            return
        line = compact.encode(text) if self.compact else text
        if self._idle and not self._queue and self.write_at_once(line):
            if call is not None:
                call.sent = True
                self._slots.release()
            return
        self._queue.append((line, call))
        self._wake.set()

    async def _write(self) -> None:
        while True:
            while not self._queue:
                self._wake = trio.Event()
                self._idle = True
                await self._wake.wait()
                self._idle = False
            text, call = self._queue.popleft()
            if call is not None:
                self._slots.release()
                if call.abandoned:
                    continue
            if not await self.write(text, call):
                return

    async def _read(self, questions: trio.Nursery) -> None:
        while (lines := await self.receive()) is not None:
            for line in lines:
                self._take(line, questions)

    def _take(self, line: bytes | LineTooLong, questions: trio.Nursery) -> None:
        if isinstance(line, LineTooLong):
            self.junk_lines += 1
            return
        if self.may_be_compact:
            with contextlib.suppress(Invalid):
                line = compact.decode(line)
        try:
            message = jsonrpc.parse(line)
        except Malformed as error:
            self.junk_lines += 1
            call = self._calls.get(jsonrpc.answered_id(line) or 0)
            if call is not None:
                call.lose(NoReply(f"the server's answer cannot be read: {error.message}"))
            return
        match message:
            case Response():
                call = self._calls.get(message.id) if message.id is not None else None
                if call is not None:
                    call.take_response(message)
            case Notification():
                self._notification(message)
            case Request():
                self._asked(message, questions)

    def _notification(self, message: Notification) -> None:
        if message.method != "notifications/progress":
            self._subscribed(message)(message.method, message.params)
            return
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            told = msgspec.json.decode(message.params, type=_Progress)
            call = self._calls.get(told.progress_token)
            if call is not None:
                call.take_progress(told.progress, told.total, told.message or "")

    def _subscribed(self, message: Notification) -> OnNotification:
        """Return who takes the notification: the request whose subscription it names, else whoever hears them all."""
        if META_SUBSCRIPTION.encode() in message.params:
            with contextlib.suppress(RpcError):
                named = decode_member(read_meta(read_object(message.params, "params")), META_SUBSCRIPTION)
                call = self._calls.get(named) if isinstance(named, int) else None
                if call is not None and call.on_notification is not None:
                    return call.on_notification
        return self.on_notification

    def _asked(self, request: Request, questions: trio.Nursery) -> None:
        if request.method == "ping":
            self._post(jsonrpc.encode_result(request.id, b"{}"), None)
            return
        callers = [call for call in self._calls.values() if call.may_ask]
        # A call whose question waits has asked; whoever asks now is the other one, if there is one other alone.
        # Where all have asked, the newest asks once more.
        callers = [call for call in callers if not call.questions] or callers[-1:]
        if request.method not in QUESTIONS or len(callers) != 1 or callers[0].on_question is None:
            reason = f"{request.method}: no single call in progress takes questions"
            self._post(jsonrpc.encode_error(request.id, METHOD_NOT_FOUND, reason), None)
            return
        if len(questions.child_tasks) >= _MOST_QUESTIONS:
            reason = f"{request.method}: {_MOST_QUESTIONS} questions wait for answers already"
            self._post(jsonrpc.encode_error(request.id, INTERNAL_ERROR, reason), None)
            return
        questions.start_soon(self._answer, request, callers[0])

    async def _answer(self, request: Request, call: OpenCall) -> None:
        try:
            text = jsonrpc.encode_result(request.id, await call.ask(request.method, request.params))
        except RpcError as error:
            text = jsonrpc.encode_error(request.id, error.code, error.message, error.data)
        except (ClientCannot, McpError) as error:
            text = jsonrpc.encode_error(request.id, METHOD_NOT_FOUND, error.message)
        except trio.EndOfChannel:
            return
        self._post(jsonrpc.single_line(text), None)

    def _close(self) -> None:
        self.close_reason = self.close_reason or "the connection was closed"
        self.closed.set()
        for call in self._calls.values():
            call.lose(self.close_reason)
        for _, call_or_none in self._queue:
            if call_or_none is not None:
                self._slots.release()
        self._queue.clear()

"""One POST of a Streamable HTTP client and what comes back for it: JSON, or events until the response (spec 1.5, 3.7)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import httpx
import msgspec
import trio

from delta_actors.mcp.client_calls import OpenCall
from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import Id, Malformed, Message, Notification, Request, Response
from delta_protocol.mcp.errors import McpError, NoReply, NotSent
from delta_protocol.mcp.sse import EventTooLong, SseParser

_ERROR_BODY = 64 << 10
_ERROR_SHOWN = 300
_TAIL = 1.0
"""Seconds a server may keep a stream open after the response."""

OnMessage = Callable[[Request | Notification], None]


class SessionEnded(Exception):
    """HTTP 404 for a session: the request was not accepted (spec 3.7)."""


class Progress(msgspec.Struct, rename="camel"):
    """The params of `notifications/progress`."""

    progress_token: Id
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Post:
    """One request to send. `max_body` bounds the answer, or each event of it, in bytes."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    identity: Id
    max_body: int
    in_session: bool


async def exchange(http: httpx.AsyncClient, post: Post, call: OpenCall, on_message: OnMessage) -> None:
    """Send `post` and give `call` what arrives. Raises `SessionEnded`; every other failure becomes the call's.

    Never leaves an answer half read outside of a cancellation, which ends the connection.
    """
    try:
        async with http.stream("POST", post.url, content=post.body, headers=dict(post.headers)) as response:
            call.sent = True
            await _read_response(response, post, call, on_message)
    except (
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.PoolTimeout,
        httpx.ProxyError,
        httpx.UnsupportedProtocol,
    ) as e:
        call.lose(NotSent(f"{post.url} cannot be reached: {e or type(e).__name__}"))
    except httpx.HTTPError as error:
        call.lose(NoReply(f"the connection to {post.url} broke: {error or type(error).__name__}"))
    except McpError as error:
        call.lose(error)
    if not call.done:
        call.lose(NoReply("the response stream ended without a response"))


async def _read_response(response: httpx.Response, post: Post, call: OpenCall, on_message: OnMessage) -> None:
    if response.status_code == 404 and post.in_session:
        await _read_bounded(response, _ERROR_BODY)
        raise SessionEnded
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code == 200 and media == "text/event-stream":
        await _read_events(response, post, call, on_message)
        return
    body = await _read_bounded(response, post.max_body if response.status_code == 200 else _ERROR_BODY)
    answer = _response_in(body)
    if response.status_code in (429, 503):
        raise _refused(response, answer, body)
    if answer is not None and (answer.id == post.identity or (answer.id is None and answer.error is not None)):
        call.take_response(answer)
    elif 400 <= response.status_code < 500 or 300 <= response.status_code < 400:
        raise _refused(response, answer, body)
    else:
        raise NoReply(f"HTTP {response.status_code} without a JSON-RPC response: {_shown(body)}")


def _refused(response: httpx.Response, answer: Response | None, body: bytes) -> NotSent:
    said = answer.error.message if answer is not None and answer.error is not None else _shown(body)
    wait = response.headers.get("retry-after", "")
    retry_after = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 8 else None
    return NotSent(f"HTTP {response.status_code}: {said}", retry_after=retry_after, status=response.status_code)


async def _read_bounded(response: httpx.Response, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size <= limit:
            parts.append(chunk)
        elif size > 2 * limit + _ERROR_BODY:
            break
    if size > limit:
        if response.status_code == 200:
            raise NoReply(f"the answer is longer than {limit} bytes")
        return b"".join(parts)[:limit]
    return b"".join(parts)


def _response_in(body: bytes) -> Response | None:
    try:
        message = jsonrpc.parse(body)
    except Malformed:
        return None
    return message if isinstance(message, Response) else None


def _shown(body: bytes) -> str:
    return " ".join(body[:_ERROR_SHOWN].decode(errors="replace").split()) or "(empty body)"


async def _read_events(response: httpx.Response, post: Post, call: OpenCall, on_message: OnMessage) -> None:
    with trio.CancelScope() as tail:
        async for message in messages(response, post.max_body):
            if isinstance(message, Response):
                if message.id == post.identity and not call.done:
                    call.take_response(message)
                    tail.deadline = trio.current_time() + _TAIL
            elif isinstance(message, Notification) and message.method == "notifications/progress":
                take_progress(message, post.identity, call)
            else:
                on_message(message)


async def messages(response: httpx.Response, max_event: int) -> AsyncIterator[Message]:
    """Yield the messages of an event stream to its end; what is none is skipped. Raises `NoReply` over the limit."""
    parser = SseParser(max_event)
    async for chunk in response.aiter_bytes():
        try:
            events = parser.feed(chunk)
        except EventTooLong as error:
            raise NoReply(str(error)) from None
        for event in events:
            with contextlib.suppress(Malformed):
                yield jsonrpc.parse(event.data)


def take_progress(message: Notification, identity: Id, call: OpenCall) -> None:
    """Give a progress notification to the call if it is the call's own."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        told = msgspec.json.decode(message.params, type=Progress)
        if told.progress_token == identity:
            call.take_progress(told.progress, told.total, told.message or "")


Answerer = Callable[[Request, OpenCall], Awaitable[None]]

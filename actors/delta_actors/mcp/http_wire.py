"""One POST of a Streamable HTTP client and its answer: JSON, or events until the response (spec 1.5, 3.7)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass

import httpx
import msgspec
import trio

from delta_actors.mcp.client_calls import OpenCall
from delta_actors.mcp.http_resume import Place, resume
from delta_protocol import jsonrpc
from delta_protocol.errors import Invalid
from delta_protocol.jsonrpc import Id, Malformed, Message, Notification, Request, Response
from delta_protocol.mcp import versions
from delta_protocol.mcp.errors import McpError, NoReply, NotSent
from delta_protocol.mcp.http_coding import decode_answer
from delta_protocol.mcp.sse import EventTooLong, SseParser

ERROR_BODY = 64 << 10
"""How much of a body is read that is shown in an error, or not needed at all."""
_ERROR_SHOWN = 300
_TAIL = 1.0
"""Seconds a server may keep a stream open after the response."""

_UNREACHED = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
)

OnMessage = Callable[[Request | Notification], None]


_FORGOTTEN = ("session", "not initialized")
"""Words of a refusal that is about the session."""


class SessionEnded(Exception):
    """The server does not know the session, so the request was not accepted: HTTP 404 (spec 3.7), or a 400 that says so
    and answers no request, as many servers do since the SDKs' examples did (acceptance 43).
    """


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


class _Body(httpx.AsyncByteStream):
    """A body in one piece, which may be sent again.

    httpx's is an async generator, which httpcore abandons where the server answers before it has read everything.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._body)


class _Once:
    """The only chunk of a body, as its own iterator."""

    def __init__(self, body: bytes) -> None:
        self._left: bytes | None = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        body, self._left = self._left, None
        if body is None:
            raise StopAsyncIteration
        return body


@contextlib.asynccontextmanager
async def posted(
    http: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]
) -> AsyncGenerator[httpx.Response, None]:
    """Send a POST; the response is open in the block. Raises `httpx.HTTPError`."""
    request = http.build_request("POST", url, content=body, headers=dict(headers))
    request.stream = _Body(body)
    response = await http.send(request, stream=True)
    try:
        yield response
    finally:
        await response.aclose()


async def exchange(
    http: httpx.AsyncClient,
    post: Post,
    call: OpenCall,
    on_message: OnMessage,
    on_session: Callable[[str], None] = lambda _session: None,
) -> None:
    """Send `post` and give `call` what arrives. Raises `SessionEnded`; every other failure becomes the call's.

    `on_session` gets the session id of an `initialize` response.
    """
    place = Place()
    why = "the response stream ended without a response"
    try:
        async with posted(http, post.url, post.body, post.headers) as response:
            call.sent = True
            if versions.HEADER_SESSION in response.headers:
                on_session(response.headers[versions.HEADER_SESSION])
            await _read_response(response, post, call, on_message, place)
    except _UNREACHED as error:
        call.lose(NotSent(f"{post.url} cannot be reached: {error or type(error).__name__}"))
    except httpx.HTTPError as error:
        why = f"the connection to {post.url} broke: {error or type(error).__name__}"
    except McpError as error:
        call.lose(error)
    if not call.done and post.in_session and place.last_id is not None:
        why = await _take_up(http, post, call, on_message, place)
    if not call.done:
        call.lose(NoReply(why))


async def _take_up(http: httpx.AsyncClient, post: Post, call: OpenCall, on_message: OnMessage, place: Place) -> str:
    """Read the rest of the stream on others. Returns why there is no response, if there is none."""

    async def read(response: httpx.Response) -> bool:
        await _read_events(response, post, call, on_message, place)
        return call.done

    try:
        return await resume(http, post.url, post.headers, place, read)
    except McpError as error:
        call.lose(error)
        return ""


async def _read_response(
    response: httpx.Response, post: Post, call: OpenCall, on_message: OnMessage, place: Place
) -> None:
    if response.status_code == 404 and post.in_session:
        await read_bounded(response, ERROR_BODY)
        raise SessionEnded
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code == 200 and media == "text/event-stream":
        await _read_events(response, post, call, on_message, place)
        return
    body = await read_bounded(response, post.max_body if response.status_code == 200 else ERROR_BODY)
    answer = _response_in(body, response.headers.get("content-type", ""))
    if response.status_code in (401, 429, 503):
        raise _refused(response, answer, body)
    if response.status_code == 400 and post.in_session and (answer is None or answer.id is None):
        refusal = _said(answer, body).lower()
        if any(word in refusal for word in _FORGOTTEN):
            raise SessionEnded
    if answer is not None and (answer.id == post.identity or (answer.id is None and answer.error is not None)):
        call.take_response(answer)
    elif 400 <= response.status_code < 500 or 300 <= response.status_code < 400:
        raise _refused(response, answer, body)
    else:
        raise NoReply(
            f"HTTP {response.status_code} without a JSON-RPC response: {_shown(body)}", status=response.status_code
        )


def _refused(response: httpx.Response, answer: Response | None, body: bytes) -> NotSent:
    said = _said(answer, body)
    wait = response.headers.get("retry-after", "")
    retry_after = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 8 else None
    return NotSent(f"HTTP {response.status_code}: {said}", retry_after=retry_after, status=response.status_code)


def _said(answer: Response | None, body: bytes) -> str:
    return answer.error.message if answer is not None and answer.error is not None else _shown(body)


async def read_chunks(response: httpx.Response, take: Callable[[bytes, trio.CancelScope], None]) -> None:
    """Give every chunk of the body to `take`, which may cancel the scope to stop, or set its deadline.

    Stopping by cancellation lets httpx's own generators unwind, where leaving the loop would abandon them.
    """
    with trio.CancelScope() as scope:
        async for chunk in response.aiter_bytes():
            if not scope.cancel_called:
                take(chunk, scope)


async def read_bounded(response: httpx.Response, limit: int) -> bytes:
    """Return the body, cut at `limit`; a whole answer (200) that is longer raises `NoReply`."""
    body = bytearray()

    def take(chunk: bytes, scope: trio.CancelScope) -> None:
        body.extend(chunk)
        if len(body) > limit:
            scope.cancel()

    await read_chunks(response, take)
    if len(body) > limit and response.status_code == 200:
        raise NoReply(f"the answer is longer than {limit} bytes")
    return bytes(body[:limit])


def _response_in(body: bytes, content_type: str) -> Response | None:
    try:
        message = jsonrpc.parse(decode_answer(content_type, body))
    except (Malformed, Invalid):
        return None
    return message if isinstance(message, Response) else None


def _shown(body: bytes) -> str:
    return " ".join(body[:_ERROR_SHOWN].decode(errors="replace").split()) or "(empty body)"


async def _read_events(
    response: httpx.Response, post: Post, call: OpenCall, on_message: OnMessage, place: Place
) -> None:
    def take(message: Message, scope: trio.CancelScope) -> None:
        if isinstance(message, Response):
            if message.id == post.identity and not call.done:
                call.take_response(message)
                scope.deadline = trio.current_time() + _TAIL
        elif isinstance(message, Notification) and message.method == "notifications/progress":
            take_progress(message, post.identity, call)
        else:
            on_message(message)

    await read_messages(response, post.max_body, take, place, whole=True)


async def read_messages(
    response: httpx.Response,
    max_event: int,
    take: Callable[[Message, trio.CancelScope], None],
    place: Place | None = None,
    *,
    whole: bool = False,
) -> None:
    """Give every message of an event stream to `take`; what is none is skipped. Raises `NoReply` over the limit.

    `place` keeps how far it was read. With `whole`, a garbled message ends the reading with `NoReply`: it may have been
    the response, which would never come again. Other events, and empty ones (which only carry an id), are none.
    """
    parser = SseParser(max_event)
    problem: list[str] = []

    def feed(chunk: bytes, scope: trio.CancelScope) -> None:
        try:
            events = parser.feed(chunk)
        except EventTooLong as error:
            problem.append(str(error))
            scope.cancel()
            return
        for event in events:
            if place is not None:
                place.take(event)
            try:
                message = jsonrpc.parse(event.data)
            except Malformed as error:
                if whole and event.event == "message" and event.data.strip():
                    problem.append(f"the answer cannot be read: {error.message}: {_shown(event.data)}")
                    scope.cancel()
                    return
                continue
            take(message, scope)

    await read_chunks(response, feed)
    if problem:
        raise NoReply(problem[0])


def take_progress(message: Notification, identity: Id, call: OpenCall) -> None:
    """Give a progress notification to the call if it is the call's own."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        told = msgspec.json.decode(message.params, type=Progress)
        if told.progress_token == identity:
            call.take_progress(told.progress, told.total, told.message or "")

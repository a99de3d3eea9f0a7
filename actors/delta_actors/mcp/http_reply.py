"""One HTTP response: a JSON body, or server-sent events from the moment something must be streamed (spec 7)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from delta_actors.mcp.execute import Answer
from delta_actors.mcp.http_streams import Stream
from delta_protocol.jsonrpc import single_line
from delta_protocol.mcp import sse
from delta_protocol.mcp.http_coding import Accepts, encode_body
from delta_protocol.mcp.http_ladder import status_of
from delta_protocol.mcp.versions import Era

AsgiSend = Callable[[dict[str, Any]], Awaitable[None]]
Pairs = Sequence[tuple[bytes, bytes]]

_LONG = 256 << 10
"""Bytes beyond which compressing takes so long that it is done in a thread."""
_JSON = (b"content-type", b"application/json")
_SSE = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


async def send_whole(send: AsgiSend, status: int, body: bytes = b"", headers: Pairs = (), *, last: bool = True) -> None:
    """Send a whole response; with a body it is JSON. Unless `last`, an empty part must follow to end it."""
    pairs = [*headers, (b"content-length", str(len(body)).encode())]
    if body:
        pairs.append(_JSON)
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": not last})


async def send_answer(send: AsgiSend, status: int, text: bytes, accepts: Accepts, headers: Pairs = ()) -> None:
    """Send a JSON text as the whole response, in the form that the client takes."""
    if accepts.gzip and len(text) > _LONG:
        body, said = await trio.to_thread.run_sync(encode_body, accepts, text)
    else:
        body, said = encode_body(accepts, text)
    pairs = [*headers, *said, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: AsgiSend, status: int, headers: Pairs = ()) -> None:
    """Send a response of a status that has no body, such as 204."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b""})


class Reply:
    """The way back for one request. It becomes a stream when the handler sends something, or takes longer than
    `patience` seconds: then comments keep the connection alive, and a client that went away is noticed.

    `patience` is infinite where the client takes no stream. `open_stream` makes the stream resumable; `primes` says
    whether it may begin with an empty event.
    """

    def __init__(
        self,
        send: AsgiSend,
        era: Era,
        accepts: Accepts,
        *,
        patience: float,
        keep_alive: float,
        open_stream: Callable[[], Stream] | None = None,
        primes: bool = False,
    ) -> None:
        self._send = send
        self._era: Era = era
        self._accepts = accepts
        self.patience = patience if accepts.sse else math.inf
        self._keep_alive = keep_alive
        self._lock = trio.Lock()
        self._streaming = False
        self._ended = False
        self._open_stream = open_stream
        self._primes = primes
        self._stream: Stream | None = None
        self._reader = 0
        self._closed = False
        self._head = b""

    @property
    def can_stream(self) -> bool:
        """Whether anything but the response can reach the client."""
        return self._accepts.sse

    async def notify(self, text: bytes) -> None:
        """Send a message before the response. Dropped where the client takes no stream."""
        if not self._accepts.sse:
            await trio.lowlevel.checkpoint()
            return
        async with self._lock:
            if not self._ended:
                await self._start_stream()
                await self._event(single_line(text))

    async def finish(self, answer: Answer) -> None:
        """Send the response, and nothing after it."""
        # `async with` gives up a turn of the loop also for a lock that is free.
        if self._lock.locked():
            await self._lock.acquire()
        else:
            self._lock.acquire_nowait()
        try:
            self._ended = True
            if self._streaming or not self._accepts.json:
                await self._start_stream()
                await self._event(single_line(answer.text), last=True)
                return
            headers: list[tuple[bytes, bytes]] = []
            if answer.retry_after is not None:
                headers.append((b"retry-after", str(max(1, round(answer.retry_after))).encode()))
            await send_answer(self._send, status_of(self._era, answer.code), answer.text, self._accepts, headers)
        finally:
            self._lock.release()

    async def end(self) -> None:
        """End a stream that has no response."""
        async with self._lock:
            if not self._ended:
                self._ended = True
                await self._start_stream()
                self.abandon()
                await self._close()

    async def close_stream(self) -> None:
        """Let the client go while its request goes on; it comes back for the rest. Only where that is possible."""
        async with self._lock:
            if self._open_stream is None or self._ended or not self._accepts.sse:
                return
            await self._start_stream()
            await self._close()
            if self._stream is not None:
                self._stream.attach()

    def abandon(self) -> None:
        """Nothing follows, whether or not there was a response."""
        if self._stream is not None:
            self._stream.end()

    async def send_event(self, event: bytes) -> None:
        """Send an event that another reply made."""
        async with self._lock:
            await self._start_stream()
            await self._body(event)

    async def keep_alive(self) -> None:
        """Run beside a handler that took `patience`: begin to stream, then send comments. Cancelled by the caller."""
        while True:
            async with self._lock:
                if self._ended:
                    return
                await self._start_stream()
                if self._closed or not self._connected:
                    return
                await self._body(sse.KEEP_ALIVE)
            await trio.sleep(self._keep_alive)

    async def _start_stream(self) -> None:
        if not self._streaming:
            self._streaming = True
            await self._send({"type": "http.response.start", "status": 200, "headers": list(_SSE)})
            if self._open_stream is not None:
                self._stream = self._open_stream()
                self._reader = self._stream.attach()
                self._head = self._stream.prime(empty=self._primes)

    @property
    def _connected(self) -> bool:
        return self._stream is None or self._stream.reads(self._reader)

    async def _event(self, text: bytes, *, last: bool = False) -> None:
        event = sse.encode(text) if self._stream is None else self._stream.append(text)
        if last:
            self.abandon()
        if not self._connected:
            await self._close()
        elif not self._closed:
            await self._body(event, more=not last)

    async def _close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._body(b"", more=False)

    async def _body(self, body: bytes, *, more: bool = True) -> None:
        head, self._head = self._head, b""
        await self._send({"type": "http.response.body", "body": head + body, "more_body": more})

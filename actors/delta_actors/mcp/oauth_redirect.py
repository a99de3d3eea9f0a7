"""The person's way to the authorisation page and back: a listener on this machine takes the redirect (RFC 8252 7.3)."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import h11
import trio

from delta_actors.mcp.background import background
from delta_protocol.mcp.oauth.errors import OAuthError

HOST = "127.0.0.1"
PATH = "/callback"
PORTS = 20
"""How many ports are tried, from the configured one up."""
_REQUEST_TIMEOUT = 10.0
_MAX_HEAD = 32 << 10
_DONE = b"<!doctype html><title>delta</title><p>The answer has arrived. Close this page: the terminal says how it went."
_STRANGE = b"<!doctype html><title>delta</title><p>This is not the answer to a sign-in that is under way."


class Visit(Protocol):
    """One sign-in. `redirect_uri` is where its response arrives."""

    @property
    def redirect_uri(self) -> str:
        """The redirect URI to register and to ask with."""
        ...

    async def follow(self, url: str, state: str) -> str:
        """Send the person to `url` and return the query of the response that carries `state`."""
        ...


Visitor = Callable[[], AbstractAsyncContextManager[Visit]]
"""Prepares a sign-in. Somebody else's may fetch the page by itself, or wait at an address of its own."""
Show = Callable[[str], Awaitable[None]]
"""Opens a URL for the person."""


def loopback(show: Show, port: int, say: Callable[[str], None]) -> Visitor:
    """Return a visitor with a listener of its own on this machine, at `port` or the next free one.

    `say` hears in words what the person should know.
    """

    @asynccontextmanager
    async def visit() -> AsyncGenerator[Visit]:
        listener, taken = await _listen(port)
        if taken != port and port:
            say(f"port {port} is in use, so the sign-in comes back at port {taken}")
        async with listener, background() as nursery:
            landing = _Landing(taken, show)
            nursery.start_soon(trio.serve_listeners, landing.serve, [listener])
            yield landing

    return visit


async def _listen(first: int) -> tuple[trio.SocketListener, int]:
    for port in range(first, first + PORTS) if first else (0,):
        listening = trio.socket.socket()
        try:
            listening.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEADDR, 1)
            await listening.bind((HOST, port))
            # Two may bind an address with SO_REUSEADDR; listening is what only one can.
            listening.listen(8)
        except OSError as error:
            listening.close()
            if error.errno != errno.EADDRINUSE:
                raise OAuthError(f"nothing can listen at {HOST}:{port} for the sign-in: {error.strerror}") from None
            continue
        return trio.SocketListener(listening), listening.getsockname()[1]
    raise OAuthError(f"the ports {first} to {first + PORTS - 1} are all in use: configure another `redirect_port`")


class _Landing:
    """Where the browser comes back to. A request that does not carry the awaited state changes nothing."""

    def __init__(self, port: int, show: Show) -> None:
        self.redirect_uri = f"http://{HOST}:{port}{PATH}"
        self._show = show
        self._state: str | None = None
        self._query = ""
        self._arrived = trio.Event()

    async def follow(self, url: str, state: str) -> str:
        """Open `url` and wait, for as long as the caller does."""
        self._state = state
        await self._show(url)
        await self._arrived.wait()
        return self._query

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one request of one connection."""
        with trio.move_on_after(_REQUEST_TIMEOUT):
            try:
                await self._answer(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
                return

    async def _answer(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(4096))
            elif isinstance(event, h11.Request):
                break
            else:
                return
        status, body = self._take(event)
        headers = [
            ("content-type", "text/html; charset=utf-8"),
            ("content-length", str(len(body))),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("connection", "close"),
        ]
        answer = connection.send(h11.Response(status_code=status, headers=headers))
        answer += connection.send(h11.Data(data=body))
        answer += connection.send(h11.EndOfMessage())
        try:
            await stream.send_all(answer)
        finally:
            # Only now, as the listener closes with the sign-in: the person shall see its end.
            if status == 200:
                self._arrived.set()

    def _take(self, request: h11.Request) -> tuple[int, bytes]:
        target = urlsplit(request.target.decode("ascii", "replace"))
        if request.method != b"GET" or target.path != PATH:
            return 404, _STRANGE
        if self._state is None or parse_qs(target.query).get("state") != [self._state]:
            return 400, _STRANGE
        self._query = self._query or target.query
        return 200, _DONE

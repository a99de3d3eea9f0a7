"""Runs a `DeltaServer` behind hypercorn, under trio, on listening sockets that somebody else opened.

Connections are accepted here and each is given to hypercorn: its own `serve` shortens the queue of connections to 100,
so that the kernel drops the others of a burst; accepts without limit; keeps what its client has closed; and waits for
ever for a client that stopped reading, since it sends behind a shield. Here the queue is the kernel's longest,
connections are bounded, and at the end they are cut. The rest of hypercorn's pitfalls (spec actors 1.1) is met in
`http_server` and `http_exchange`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from delta_actors.mcp.access import Access, Authenticate, as_access, check_reach
from delta_actors.mcp.http_connection import Connection
from delta_actors.mcp.http_server import HttpServer
from delta_actors.mcp.http_settings import HttpSettings
from delta_actors.mcp.server import DeltaServer

logger = logging.getLogger(__name__)

_KEEP_ALIVE = 75.0
"""Seconds without a request until a connection is closed; a client that is slow to send its first one counts too."""
_BACKLOG = 4096
"""Connections that may wait to be accepted, where the system allows that many (net.core.somaxconn)."""


async def serve_http(
    server: DeltaServer,
    sockets: Sequence[socket.socket],
    settings: HttpSettings,
    shutdown: trio.Event,
    authenticate: Access | Authenticate | None = None,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown` is set and requests have finished, at most `settings.graceful` seconds later.

    `authenticate`: one of the modes of `access`, or a check of one's own. Without any the mode is open: raises
    `ValueError` for a socket that other machines can reach.

    Being cancelled, or late, cuts what is open: no client can hold this function. The sockets stay the caller's and
    open. `task_status.started` gives the bound URLs.
    """
    access = as_access(authenticate)
    check_reach(access, [each.getsockname()[0] for each in sockets if each.family != socket.AF_UNIX])
    front = _Front(server.asgi(settings, authenticate=access, shutdown=shutdown), settings)
    room = trio.Semaphore(settings.connections)
    listeners = [_Listener(each, settings.stall, room) for each in sockets]
    async with server.serving(), trio.open_nursery() as nursery:
        nursery.start_soon(front.cut_at_end)
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accept = partial(trio.serve_listeners, handler_nursery=connections)
                accepting.start_soon(accept, partial(front.serve, room), listeners)
                task_status.started([_url(each) for each in sockets])
                await shutdown.wait()
                accepting.cancel_scope.cancel()
            nursery.cancel_scope.deadline = trio.current_time() + settings.graceful
            await front.end_idle()
        nursery.cancel_scope.cancel()


class _Front:
    """The open connections of one application."""

    def __init__(self, app: HttpServer, settings: HttpSettings) -> None:
        self._server = app
        self._config = Config()
        self._config.errorlog = logger
        self._config.accesslog = None
        self._config.include_server_header = False
        self._config.keep_alive_timeout = _KEEP_ALIVE
        self._config.websocket_max_message_size = settings.max_body
        self._config.websocket_ping_interval = settings.keep_alive
        # hypercorn spells every ASGI event as its own TypedDict; the application takes them as plain dicts.
        self._app = ASGIWrapper(cast("Any", app))
        self._context = WorkerContext(None)
        self._streams: set[trio.SocketStream] = set()

    async def serve(self, room: trio.Semaphore, stream: trio.SocketStream) -> None:
        """Serve one connection to its end; its faults are its own."""
        self._streams.add(stream)
        try:
            await Connection(self._app, self._config, self._context, ConnectionState({}), cast("Any", stream)).run()
        except Exception:
            logger.exception("a connection failed")
        finally:
            self._streams.discard(stream)
            room.release()

    async def end_idle(self) -> None:
        """Close the connections once no request is in progress.

        Until then the idle ones stay: who sends on one just now hears 503 instead of a reset that leaves it in doubt.
        """
        await self._server.wait_quiet()
        await self._context.terminated.set()

    async def cut_at_end(self) -> None:
        """Wait to be cancelled, then wake whoever sends to a client that does not read."""
        try:
            await trio.sleep_forever()
        finally:
            for stream in self._streams:
                with contextlib.suppress(OSError):
                    stream.socket.shutdown(socket.SHUT_RDWR)


class _Listener(trio.abc.Listener[trio.SocketStream]):
    """Accepts on an own descriptor of `listening` while there is room; the others wait in the kernel's queue."""

    def __init__(self, listening: socket.socket, stall: float, room: trio.Semaphore) -> None:
        own = listening.dup()
        own.setblocking(False)
        own.listen(_BACKLOG)
        if own.family in (socket.AF_INET, socket.AF_INET6):
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall * 1000))
        self._inner = trio.SocketListener(trio.socket.from_stdlib_socket(own))
        self._room = room

    async def accept(self) -> trio.SocketStream:
        """Return the next connection, whose handler gives the room back."""
        await self._room.acquire()
        try:
            return await self._inner.accept()
        except BaseException:
            self._room.release()
            raise

    async def aclose(self) -> None:
        """Close the own descriptor."""
        await self._inner.aclose()


def _url(listening: socket.socket) -> str:
    name = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return f"http+unix:{name}"
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

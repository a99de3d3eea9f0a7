"""Runs a `DeltaServer` behind hypercorn, under trio, on listening sockets that somebody else opened.

hypercorn's pitfalls (spec actors 1.1) and where they are met: a client that stops reading cannot hold the shutdown
longer than `stall` (TCP_USER_TIMEOUT, here); disconnects, pipelining and shutdown of streams in `http_server`; the body
limit in `http_exchange`; sockets are passed as descriptors, so no file is left behind; signals are the caller's.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType] - partly typed

from delta_actors.mcp.http_server import Authenticate, HttpSettings
from delta_actors.mcp.server import DeltaServer

_KEEP_ALIVE = 30.0


async def serve_http(
    server: DeltaServer,
    sockets: Sequence[socket.socket],
    settings: HttpSettings,
    shutdown: trio.Event,
    authenticate: Authenticate | None = None,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown` is set and requests have finished, at most `settings.graceful` seconds later.

    The sockets stay the caller's and open. `task_status.started` gives the bound URLs. Raises what hypercorn raises
    where it cannot start, as a group.
    """
    descriptors = [_descriptor(listener, settings.stall) for listener in sockets]
    config = Config()
    config.bind = [f"fd://{descriptor}" for descriptor in descriptors]
    config.errorlog = logging.getLogger(__name__)
    config.accesslog = None
    config.include_server_header = False
    config.keep_alive_timeout = _KEEP_ALIVE
    config.graceful_timeout = settings.graceful
    app = server.asgi(settings, authenticate=authenticate, shutdown=shutdown)
    async with trio.open_nursery() as nursery:
        # hypercorn spells every ASGI event as its own TypedDict; the application takes them as plain dicts.
        run = partial(serve, cast("Any", app), config, shutdown_trigger=shutdown.wait, mode="asgi")
        binds: list[str] = await nursery.start(run)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # hypercorn makes them inheritable
        task_status.started(binds)


def _descriptor(listener: socket.socket, stall: float) -> int:
    """Return an own descriptor of the socket: hypercorn closes what it is given."""
    if listener.family in (socket.AF_INET, socket.AF_INET6):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall * 1000))
    return os.dup(listener.fileno())

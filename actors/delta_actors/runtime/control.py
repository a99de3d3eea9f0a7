"""The parent's end of an actor's control socket: `Start`, `Heartbeat`, `Stop`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from socket import socket
from typing import TypeVar

import trio
from tricycle import open_service_nursery

from delta_actors.runtime.calling import CallerLink, LinkClosed
from delta_actors.runtime.current import NOTHING
from delta_actors.runtime.greeting import Identity, greet
from delta_actors.runtime.schema import control_schema
from delta_protocol.errors import ActorCrashed
from delta_protocol.wire.message import Request, Role

ReplyT = TypeVar("ReplyT")

CONTROL = "control"

EXIT_CONFIGURATION = 78
"""An actor process's exit code when it could not start for a reason that another start would meet again."""
"""What the control socket's far end calls itself, before it knows its role."""


class Control:
    """Asks one actor over its control socket."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link

    @property
    def closed(self) -> trio.Event:
        """Set when the actor's end has closed: the process is gone or going."""
        return self._link.closed

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """Ask `Start`, `Heartbeat` or `Stop`. Raises what the actor raised, `ActorCrashed` when it is gone."""
        try:
            return await self._link.ask(request, NOTHING)
        except LinkClosed:
            raise ActorCrashed("the actor's control socket is closed", executed="no") from None


@asynccontextmanager
async def open_control(sock: socket) -> AsyncGenerator[Control, None]:
    """Greet an actor process over `sock` (one end of a socket pair, taken over) and keep the link while inside.

    Raises `ActorCrashed` when it died before it greeted. Leaving the block closes the socket, which tells the actor
    to end by itself.
    """
    link = await greet(sock, me=Identity(Role.SUPERVISOR), callee=CONTROL, token=b"", schema=control_schema())
    async with open_service_nursery() as nursery:
        nursery.start_soon(link.serve)
        yield Control(link)
        nursery.cancel_scope.cancel()

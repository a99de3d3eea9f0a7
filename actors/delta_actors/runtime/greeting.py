"""Opening a link over a connected socket: the greeting, seen from both ends."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from socket import socket
from typing import Any, cast

import trio

from delta_actors.runtime.calling import CallerLink
from delta_actors.runtime.channel import Channel
from delta_actors.runtime.processes import peer_of
from delta_actors.runtime.schema import Schema
from delta_protocol.errors import ActorCrashed, ProtocolViolation, Refused, from_failure
from delta_protocol.wire.control import Admission
from delta_protocol.wire.envelope import FromCallee, FromCaller
from delta_protocol.wire.hello import MAX_HELLO, Hello, Unwelcome, Welcome, check_hello
from delta_protocol.wire.message import role_named

HELLO_TIMEOUT = 5.0
"""Seconds a connected peer may take to greet."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this end is when it opens links."""

    role: str
    incarnation: int = 0


async def greet(sock: socket, *, me: Identity, callee: str, token: bytes, schema: Schema) -> CallerLink:
    """Greet as the caller and return the link; its `serve` must then run. Waits as long as the peer takes.

    Raises `Refused` (the peer's reason), `ProtocolViolation`, `ActorCrashed` when the peer closed before it answered.
    The socket is closed when this raises.
    """
    channel: Channel[Any] = Channel(sock, Welcome | Unwelcome, limit=MAX_HELLO)
    try:
        channel.post(Hello(me.role, callee, me.incarnation, token, schema.digest))
        answer = await _first(channel)
        if answer is None:
            raise ActorCrashed(f"{callee} closed the link before it answered the greeting", actor=callee, executed="no")
        if isinstance(answer, Unwelcome):
            raise from_failure(answer.failure)
        if answer.callee != callee or answer.digest != schema.digest or answer.credit < 1:
            raise ProtocolViolation(f"{answer.callee!r} answered a greeting meant for {callee!r}")
    except BaseException:
        channel.close()
        raise
    channel.expect(FromCallee)
    return CallerLink(
        cast("Channel[FromCallee]", channel),
        callee=callee,
        incarnation=answer.incarnation,
        credit=answer.credit,
        schema=schema,
    )


async def admit(
    sock: socket, *, me: Identity, schema: Schema, admissions: Iterable[Admission] | None, credit: int
) -> tuple[str, Channel[FromCaller]]:
    """Take a greeting as the callee; return who it is and the channel, ready for a `CalleeLink`.

    Raises `Refused` (also for another user's process) or `ProtocolViolation`; the socket is closed then.
    """
    channel: Channel[Any] = Channel(sock, Hello, limit=MAX_HELLO)
    try:
        _check_user(sock)
        with trio.fail_after(HELLO_TIMEOUT):
            hello = await _first(channel)
        if hello is None:
            raise ProtocolViolation("the peer closed before it greeted")
        try:
            check_hello(hello, role=me.role, digest=schema.digest, admissions=admissions)
            caller = role_named(hello.caller)
        except Refused as error:
            channel.post(Unwelcome(error.to_failure()))
            channel.try_send()
            raise
        channel.post(Welcome(me.role, me.incarnation, credit, schema.digest))
    except trio.TooSlowError:
        channel.close()
        raise ProtocolViolation(f"no greeting within {HELLO_TIMEOUT:g} s") from None
    except BaseException:
        channel.close()
        raise
    channel.expect(FromCaller)
    return caller, cast("Channel[FromCaller]", channel)


async def _first(channel: Channel[Any]) -> Any:  # noqa: ANN401 - whatever the channel expects
    """Send what was posted and return the peer's first message, None when it closed."""
    channel.try_send()
    batch = await channel.receive()
    if len(batch) > 1:
        raise ProtocolViolation("something was sent before the greeting was over")
    return batch[0] if batch else None


def _check_user(sock: socket) -> None:
    _, user = peer_of(sock)
    if user != os.getuid():
        raise Refused(f"a process of user {user} may not open a link to an actor of user {os.getuid()}")

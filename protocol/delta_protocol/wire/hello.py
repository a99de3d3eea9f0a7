"""The greeting that opens every link: who is there, with what right, and whether both speak the same schema.

The caller sends `Hello`, the callee answers `Welcome` or `Unwelcome` and closes. Nothing else is sent before, so a call
always belongs to the incarnation that greeted: what waits in a socket's backlog never runs in a successor.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

import msgspec

from delta_protocol.errors import Failure, Refused
from delta_protocol.wire import envelope
from delta_protocol.wire.control import Admission
from delta_protocol.wire.message import Item, Request

MAX_HELLO = 4 << 10
"""Bytes in any message before the greeting is over."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=101):
    """`caller` opens a link to `callee`. `token` proves the role; `digest` is that of the callee's messages."""

    caller: str
    callee: str
    incarnation: int
    token: bytes
    digest: bytes


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=102):
    """The link is open. `incarnation` is the callee's; `credit` is how many calls may be open at once."""

    callee: str
    incarnation: int
    credit: int
    digest: bytes


class Unwelcome(msgspec.Struct, frozen=True, array_like=True, tag=103):
    """The link is refused; the callee closes it."""

    failure: Failure


def schema_digest(messages: Iterable[type[Any]]) -> bytes:
    """Return what two ends compare: a hash over the message types, their replies, items and the envelope itself.

    Both ends are usually the same program; they differ when files were upgraded under a running stack.
    """
    types: list[Any] = sorted(messages, key=lambda message: message.__name__)
    replies: list[Any] = [message.reply_type() for message in types if issubclass(message, Request)]
    kinds: list[Any] = [envelope.FromCaller, envelope.FromCallee, Item]
    schemas = [msgspec.json.schema(kind) for kind in (*types, *replies, *kinds)]
    return hashlib.sha256(msgspec.json.encode(schemas)).digest()


def token_digest(token: bytes) -> bytes:
    """Return the form in which a token is kept by the one it opens."""
    return hashlib.sha256(token).digest()


def check_hello(hello: Hello, *, role: str, digest: bytes, admissions: Iterable[Admission] | None) -> None:
    """Raise `Refused` unless this greeting may open a link to `role`.

    `admissions` None stands for a socket pair that nobody else can hold: its peer needs no token.
    """
    if admissions is not None:
        given = token_digest(hello.token)
        fits = [
            hmac.compare_digest(given, admission.digest) for admission in admissions if admission.caller == hello.caller
        ]
        if not any(fits):
            raise Refused(f"{hello.caller!r} may not open a link to {role!r} with this token")
    if hello.callee != role:
        raise Refused(f"this is {role!r}, not {hello.callee!r}")
    if hello.digest != digest:
        raise Refused(
            f"{hello.caller!r} and {role!r} run different versions of their messages: restart the whole stack",
            caller=hello.digest.hex()[:12],
            callee=digest.hex()[:12],
        )

"""Messages to the auth actor, which knows who may come in."""

from __future__ import annotations

import msgspec

from delta_protocol.wire.message import Done, Principal, Request


class Verified(msgspec.Struct, frozen=True, array_like=True):
    """Who the token speaks for; may be kept until `expires` (seconds since the epoch), at most `max_age` seconds."""

    principal: Principal
    expires: float | None = None
    max_age: float = 60.0


class VerifyToken(Request[Verified], frozen=True):
    """Is this bearer token good? `Refused` with `detail["error"]` (RFC 6750 3.1) when it is not."""

    token: str


class AddedToken(msgspec.Struct, frozen=True, array_like=True):
    """The token itself is shown once and kept only as a hash."""

    token: str


class AddToken(Request[AddedToken], frozen=True):
    """Make a static token for `name`. Only the operator may."""

    name: str
    scopes: tuple[str, ...] = ()


class RevokeToken(Request[Done], frozen=True):
    """Forget every token of `name`. `NotFound` when there is none."""

    name: str


class TokenInfo(msgspec.Struct, frozen=True, array_like=True):
    """Times are seconds since the epoch."""

    name: str
    created: float
    scopes: tuple[str, ...] = ()


class ListTokens(Request[tuple[TokenInfo, ...]], frozen=True):
    """The tokens there are, without the tokens."""


Inbox = VerifyToken | AddToken | RevokeToken | ListTokens

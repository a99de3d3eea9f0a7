"""Credentials over HTTP: refusals with their challenges (401, 403), and the metadata that leads a client to a token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from delta_actors.mcp.access import DENIED, Access, needed_by
from delta_actors.mcp.http_exchange import Exchange
from delta_actors.mcp.http_reply import send_empty
from delta_protocol.errors import DeltaError
from delta_protocol.jsonrpc import INVALID_REQUEST, Id
from delta_protocol.mcp.access_tokens import InsufficientScope
from delta_protocol.mcp.http_ladder import HttpRefusal
from delta_protocol.wire.message import Principal

_INSUFFICIENT = "insufficient_scope"


def refusal_of(access: Access, error: DeltaError, status: int, kind: str, id: Id | None = None) -> HttpRefusal:  # noqa: A002
    """Return the refusal of a request whose credentials are not enough.

    `kind` is the error of RFC 6750 3.1 where the error itself names none; nothing, where there were no credentials: the
    challenge then says only where to get some. `insufficient_scope` is 403, with all the scopes that are needed, and
    `access_denied` is 403 without a challenge, because no token would help.
    """
    named = str(error.detail.get("error", kind))
    if named == DENIED:
        return HttpRefusal(403, INVALID_REQUEST, error.message, id=id)
    needed = [str(each) for each in cast("Iterable[object]", error.detail.get("scopes", ()))]
    challenge = access.resource.challenge(named, error.message if named else "", needed)
    header = (b"www-authenticate", challenge.encode("ascii"))
    return HttpRefusal(
        403 if named == _INSUFFICIENT else status, INVALID_REQUEST, error.message, id=id, headers=[header]
    )


def check_scopes(access: Access, principal: Principal, scopes: Iterable[str] = (), id: Id | None = None) -> None:  # noqa: A002
    """Raise `HttpRefusal` (403) unless `principal` was granted what everything needs, and `scopes`."""
    scopes = tuple(scopes)
    if missing := needed_by(access, principal, scopes):
        raise refusal_of(access, InsufficientScope(scopes, missing), 403, _INSUFFICIENT, id)


async def send_metadata(exchange: Exchange, document: bytes) -> None:
    """Answer with the protected resource's metadata: to anybody, from any origin, without a token (RFC 9728 3.1)."""
    headers = [(b"access-control-allow-origin", b"*")]
    if exchange.method == "OPTIONS":
        headers += [(b"access-control-allow-methods", b"GET"), (b"access-control-allow-headers", b"*")]
        await send_empty(exchange.send, 204, headers)
        return
    headers += [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(document)).encode()),
        (b"cache-control", b"max-age=3600"),
    ]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    await exchange.send({"type": "http.response.body", "body": b"" if exchange.method == "HEAD" else document})

"""Who may come in over HTTP: three modes, each chosen by name (acceptance 78).

`open_access`: nobody is asked, from this machine alone. `bearer_access`: a static token or an own check.
`oauth_access`: tokens of an authorisation server, for which this server is a protected resource (RFC 9728); it alone
loads an HTTP client and cryptography.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import trio

from delta_protocol.errors import DeltaError, Refused
from delta_protocol.mcp.bearer import REALM, ProtectedResource
from delta_protocol.wire.message import Principal

if TYPE_CHECKING:
    from delta_actors.mcp.resource_server import ResourceSettings

logger = logging.getLogger(__name__)

Authenticate = Callable[[str | None, str | None], Awaitable[Principal]]
"""Takes the bearer token and the peer's address; raises `Refused` (`detail["error"]` as in RFC 6750 3.1)."""

LOOPBACK = Principal("loopback", "loopback")
DENIED = "access_denied"
"""The `error` of a client that no token would help."""


@dataclass(frozen=True, slots=True)
class Access:
    """`authenticate` decides, `resource` is what clients are told.

    `only_loopback`: no other machine may reach it, because nobody is asked. `waits`: whether deciding may take time.
    """

    authenticate: Authenticate
    resource: ProtectedResource = field(default_factory=ProtectedResource)
    only_loopback: bool = False
    waits: bool = True


def open_access(*, anywhere: bool = False) -> Access:
    """Ask nobody. Clients of other machines are refused, unless `anywhere` says that something else guards the door."""

    async def admit(_token: str | None, peer: str | None) -> Principal:
        if not anywhere and not is_local(peer):
            raise Refused("only clients of this machine are served here", error=DENIED)
        return LOOPBACK

    return Access(admit, only_loopback=not anywhere, waits=False)


def bearer_access(
    tokens: Mapping[str, Principal] | None = None,
    verify: Callable[[str], Awaitable[Principal]] | None = None,
    *,
    scopes: tuple[str, ...] = (),
    realm: str = REALM,
) -> Access:
    """Let in who has one of `tokens`, by the sha256 of the token in hex (see `token_hash`), or whom `verify` knows.

    `verify` raises `Refused` for a token that is not good; any other exception of it counts as that too. `scopes` are
    needed for everything. Raises `ValueError` unless there is one of both.
    """
    if (tokens is None) == (verify is None) or tokens == {}:
        raise ValueError("give the hashes of tokens, or a function that verifies them")
    known = dict(tokens or {})

    async def admit(token: str | None, _peer: str | None) -> Principal:
        if token is None:
            raise Refused("a bearer token is needed here")
        if verify is not None:
            return await _verified(verify, token)
        return _find(known, token)

    return Access(admit, ProtectedResource(realm, scopes=scopes), waits=verify is not None)


def oauth_access(settings: ResourceSettings) -> Access:
    """Let in who has a token for this server from its authorisation server; see `ResourceSettings`.

    Raises `ValueError` where the settings leave nothing to verify a token with.
    """
    from delta_actors.mcp.resource_server import TokenVerifier

    verifier = TokenVerifier(settings)

    async def admit(token: str | None, _peer: str | None) -> Principal:
        if token is None:
            raise Refused("a token of the authorisation server is needed here")
        return (await verifier.verify(token)).principal

    return Access(admit, verifier.resource)


def as_access(given: Access | Authenticate | None) -> Access:
    """Return what was given as `Access`; nothing at all is the open mode, a function a check of one's own."""
    if given is None:
        return open_access()
    return given if isinstance(given, Access) else Access(given)


def token_hash(token: str) -> str:
    """Return the form in which `bearer_access` is told a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=1024)
def is_local(address: str | None) -> bool:
    """Whether a peer is of this machine; one without an address came over a socket in the file system."""
    if address is None:
        return True
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def check_reach(access: Access, addresses: Iterable[str]) -> None:
    """Raise `ValueError` where nobody is asked and somebody else could come in by one of the bound `addresses`."""
    if access.only_loopback and (reachable := [each for each in addresses if not is_local(each)]):
        raise ValueError(
            f"{reachable[0]} can be reached from other machines and nobody is asked for a token: choose bearer_access "
            "or oauth_access, bind to loopback, or say open_access(anywhere=True)"
        )


def needed_by(access: Access, principal: Principal, scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of the server and of `scopes` that `principal` lacks.

    Scopes are asked of tokens: who comes without one, where that is allowed, is not held to them.
    """
    return () if principal.kind == LOOPBACK.kind else access.resource.missing(principal.scopes, scopes)


async def _verified(verify: Callable[[str], Awaitable[Principal]], token: str) -> Principal:
    try:
        return await verify(token)
    except Refused as error:
        raise Refused(error.message, **{"error": "invalid_token", **error.detail}) from None
    except (DeltaError, trio.TooSlowError):
        raise
    except Exception:  # libraries that verify tokens say no in exceptions of their own
        logger.debug("the check of a token failed", exc_info=True)
        raise Refused("this token could not be verified", error="invalid_token") from None


def _find(known: Mapping[str, Principal], token: str) -> Principal:
    digest = token_hash(token)
    found: Principal | None = None
    for each, principal in known.items():
        if hmac.compare_digest(each.encode(), digest.encode()):
            found = principal
    if found is None:
        raise Refused("this token is not known here", error="invalid_token")
    return found

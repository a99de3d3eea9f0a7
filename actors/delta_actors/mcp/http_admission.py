"""Whether a request comes in: its source (403), its rate (429), its credentials (401, 403), all before its body."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

import trio

from delta_actors.mcp.access import LOOPBACK, Access, needed_by
from delta_actors.mcp.http_credentials import check_scopes, refusal_of
from delta_actors.mcp.http_exchange import Exchange
from delta_actors.mcp.http_room import RETRY
from delta_actors.mcp.http_settings import HttpSettings
from delta_protocol.errors import DeltaError, Invalid, Refused
from delta_protocol.jsonrpc import INVALID_REQUEST, Id
from delta_protocol.mcp import cors, http_ladder
from delta_protocol.mcp.bearer import bearer_token
from delta_protocol.mcp.errors import DEADLINE_EXCEEDED, OVERLOADED, RpcError
from delta_protocol.mcp.forwarded import client_address
from delta_protocol.mcp.http_ladder import HttpRefusal
from delta_protocol.mcp.request_rates import RequestRates
from delta_protocol.wire.message import Principal

logger = logging.getLogger(__name__)


class Admission:
    """The door of one endpoint. `deadline`: seconds a whole request may take; `closing` is set at shutdown."""

    def __init__(self, access: Access, settings: HttpSettings, deadline: float, closing: trio.Event) -> None:
        self.access = access
        self._settings = settings
        self._deadline = deadline
        self._closing = closing
        self._hosts = (*settings.hosts, *access.resource.hosts)
        self._rates = RequestRates(settings.rate_limit, settings.rate_window)

    def check_source(self, exchange: Exchange) -> None:
        """Refuse foreign hosts and origins (403); answers to allowed origins say so from here on."""
        settings = self._settings
        http_ladder.check_source(exchange.headers, self._hosts, settings.origins, local_origins=settings.local_origins)
        exchange.common += cors.answer_headers(exchange.headers)
        exchange.peer = client_address(exchange.headers, exchange.peer, settings.proxies, settings.proxy_header)

    def check_path(self, exchange: Exchange) -> None:
        """Refuse what is not the endpoint (404)."""
        if exchange.path != self._settings.path:
            reason = f"nothing is served at {exchange.path}; the endpoint is {self._settings.path}"
            raise HttpRefusal(404, INVALID_REQUEST, reason)

    def check_open(self, exchange: Exchange) -> None:
        """Refuse what comes while the server goes down (503), with the connection."""
        if self._closing.is_set():
            exchange.common.append((b"connection", b"close"))
            raise HttpRefusal(503, OVERLOADED, "the server is going down; try again", headers=[RETRY])

    async def admit(self, exchange: Exchange) -> Principal:
        """Return whose request it is, and count it."""
        failures = f"failed {exchange.peer}"
        self._check_rate(self._rates.wait(failures, trio.current_time()))
        try:
            principal = await self._authenticate(exchange, exchange.started)
        except HttpRefusal as refusal:
            if refusal.status == 401:
                self._rates.count(failures, trio.current_time())
            raise
        self._check_rate(self._rates.take(_client(exchange, principal), trio.current_time()))
        check_scopes(self.access, principal)
        return principal

    def check_scopes(self, exchange: Exchange, scopes: Iterable[str], identity: Id) -> None:
        """Refuse a request whose principal lacks what its method needs (403)."""
        check_scopes(self.access, exchange.principal, scopes, identity)

    def check_call(self, exchange: Exchange, scopes: Iterable[str]) -> None:
        """Count a call of an open connection, and raise `RpcError` where it is one too many or lacks scopes."""
        wait = self._rates.take(_client(exchange, exchange.principal), trio.current_time())
        if wait:
            raise RpcError(OVERLOADED, self._too_many(wait))
        if missing := needed_by(self.access, exchange.principal, scopes):
            raise RpcError(INVALID_REQUEST, f"the token lacks the scopes {' '.join(missing)}")

    async def wait_dismissed(self, exchange: Exchange) -> None:
        """Return at shutdown, or once the credentials that opened a stream are no longer good."""
        while True:
            with trio.move_on_after(self._settings.recheck):
                await self._closing.wait()
                return
            try:
                check_scopes(self.access, await self._authenticate(exchange, trio.current_time()))
            except HttpRefusal as refusal:
                if refusal.status < 500:
                    return

    async def _authenticate(self, exchange: Exchange, since: float) -> Principal:
        """Check the credentials, within the deadline that began at `since` (trio time)."""
        access, token = self.access, None
        try:
            token = bearer_token(exchange.headers.all("authorization"))
            if not access.waits:
                return await access.authenticate(token, exchange.peer)
            with trio.CancelScope(deadline=since + self._deadline):
                return await access.authenticate(token, exchange.peer)
        except Invalid as error:
            raise refusal_of(access, error, 400, "invalid_request") from None
        except Refused as error:
            raise refusal_of(access, error, 401, "" if token is None else "invalid_token") from None
        except (DeltaError, trio.TooSlowError) as error:
            logger.warning("credentials could not be checked: %s", error)
            raise HttpRefusal(503, OVERLOADED, "credentials cannot be checked now", headers=[RETRY]) from None
        raise too_late("the credentials were not checked in time")

    def _check_rate(self, wait: float) -> None:
        if wait > 0:
            header = (b"retry-after", str(math.ceil(wait)).encode())
            raise HttpRefusal(429, OVERLOADED, self._too_many(wait), headers=[header])

    def _too_many(self, wait: float) -> str:
        limit, window = self._settings.rate_limit, self._settings.rate_window
        return f"more than {limit} requests in {window:g} s; wait {math.ceil(wait)} s"


def _client(exchange: Exchange, principal: Principal) -> str:
    """Return by what requests are counted: nobody's by their address."""
    return f"at {exchange.peer}" if principal.kind == LOOPBACK.kind else f"is {principal.id}"


def too_late(reason: str) -> HttpRefusal:
    """Return the 504 refusal of a request whose deadline passed before its handler began."""
    return HttpRefusal(504, DEADLINE_EXCEEDED, reason)

"""The Streamable HTTP server as an ASGI application: both eras on one path (spec 1.4, 2.1, 3.7).

Every request: source (403), path (404), method (405), rate (429), credentials (401), content (415, 413, 406), room
(503), then its era's own ladder. One deadline holds from its first byte to its answer (504).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import trio

from delta_actors.mcp.access import Access, Authenticate, as_access
from delta_actors.mcp.execute import Executor
from delta_actors.mcp.http_admission import Admission, too_late
from delta_actors.mcp.http_credentials import send_metadata
from delta_actors.mcp.http_exchange import AsgiReceive, ClientLeft, Exchange
from delta_actors.mcp.http_legacy import LegacyEra, not_allowed
from delta_actors.mcp.http_modern import ModernEra
from delta_actors.mcp.http_reply import AsgiSend, send_empty
from delta_actors.mcp.http_room import Room
from delta_actors.mcp.http_settings import HttpSettings
from delta_actors.mcp.http_websocket import WebSockets
from delta_actors.mcp.subscribers import Subscribers
from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import Malformed, Message
from delta_protocol.mcp import cors, delta_mcp, http_coding, http_ladder
from delta_protocol.mcp.http_coding import Content
from delta_protocol.mcp.http_ladder import HttpRefusal

_SMALL_BODY = 16 << 10
"""Bodies up to this size are read before there is room for the request: its kind is not known yet."""


class HttpServer:
    """The application. One instance per server and listener; its state is the open sessions and requests."""

    def __init__(
        self,
        executor: Executor,
        subscribers: Subscribers,
        settings: HttpSettings,
        *,
        authenticate: Access | Authenticate | None = None,
        shutdown: trio.Event | None = None,
    ) -> None:
        if executor.delta_mcp:
            settings = replace(settings, formats=tuple(dict.fromkeys((*settings.formats, *delta_mcp.OVER_HTTP))))
        self._executor = executor
        self._settings = settings
        self._requests = Room(settings.max_requests)
        self._streams = Room(settings.max_requests)
        closing = trio.Event() if shutdown is None else shutdown
        self._admission = Admission(as_access(authenticate), settings, executor.deadline, closing)
        rooms = {"requests": self._requests, "streams": self._streams}
        self._modern = ModernEra(executor, subscribers, settings, self._admission, **rooms)
        self._legacy = LegacyEra(executor, subscribers, settings, self._admission, **rooms)
        self._websockets = WebSockets(executor, subscribers, settings, self._admission, streams=self._streams)
        self._serving = 0
        self._quiet = trio.Event()

    def statistics(self) -> dict[str, int]:
        """Return how many requests, streams and sessions are open."""
        return {"requests": self._requests.taken, "streams": self._streams.taken, "sessions": len(self._legacy)}

    async def wait_quiet(self) -> None:
        """Return once no request is in progress."""
        while self._serving:
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def __call__(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        self._serving += 1
        try:
            if scope["type"] == "http":
                await self._serve(Exchange(scope, receive, send, trio.current_time()))
            else:
                await self._websockets.serve(scope, receive, send)
        finally:
            self._serving -= 1
            if not self._serving:
                self._quiet.set()

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self._route(exchange)
        except HttpRefusal as refusal:
            await exchange.refuse(refusal)
        except ClientLeft:
            await trio.lowlevel.checkpoint()

    async def _route(self, exchange: Exchange) -> None:
        settings, admission = self._settings, self._admission
        document = admission.access.resource.document_at(exchange.path, settings.path)
        if document is not None and exchange.method in ("GET", "HEAD", "OPTIONS"):
            await send_metadata(exchange, document)
            return
        admission.check_source(exchange)
        admission.check_path(exchange)
        if exchange.method == "OPTIONS":
            await send_empty(exchange.send, 204, cors.preflight_headers(exchange.headers))
            return
        if exchange.method not in ("POST", "GET", "DELETE"):
            raise not_allowed(exchange.method)
        admission.check_open(exchange)
        exchange.principal = await admission.admit(exchange)
        match exchange.method:
            case "POST":
                await self._post(exchange)
            case "GET":
                await self._legacy.get(exchange)
            case _:
                await self._legacy.delete(exchange)

    async def _post(self, exchange: Exchange) -> None:
        settings = self._settings
        content = http_coding.check_content(
            exchange.headers, settings.max_body, settings.formats, takes_gzip=settings.takes_gzip
        )
        accepts = exchange.accepts(settings, content.format)
        message = await self._read_message(exchange, content)
        era = http_ladder.era_of_post(message, exchange.headers)
        if "legacy" not in self._executor.eras or (era == "modern" and "modern" in self._executor.eras):
            await self._modern.serve(exchange, message, accepts)
        else:
            await self._legacy.serve(exchange, message, accepts)

    async def _read_message(self, exchange: Exchange, content: Content) -> Message:
        body = http_coding.decode_body(content, await self._read_body(exchange, content), self._settings.max_body)
        try:
            return jsonrpc.parse(body)
        except Malformed as error:
            raise HttpRefusal(400, error.code, error.message, id=error.id) from None

    async def _read_body(self, exchange: Exchange, content: Content) -> bytes:
        limit = self._settings.max_body
        if exchange.arrived:
            return await exchange.read_body(limit)
        with trio.CancelScope(deadline=exchange.started + self._executor.deadline):
            if content.length is not None and content.length <= _SMALL_BODY:
                return await exchange.read_body(limit)
            with self._requests.take():
                return await exchange.read_body(limit)
        raise too_late("the body did not arrive in time")


async def _lifespan(receive: AsgiReceive, send: AsgiSend) -> None:
    """Answer the server's start and stop; what must be opened belongs to the caller's nursery, not here."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return

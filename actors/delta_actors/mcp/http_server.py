"""The Streamable HTTP server as an ASGI application: both eras on one path (spec 1.4, 2.1, 3.7).

Every request: source (403), path, method, credentials (401), content (415, 413, 406), room (503), then its era's own
ladder. A client that leaves cancels its request in the modern era; in the legacy era the request goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from delta_actors.mcp.access import Access, Authenticate, as_access
from delta_actors.mcp.context import Asker
from delta_actors.mcp.execute import Answer, Executor
from delta_actors.mcp.http_credentials import check_scopes, refusal_of, send_metadata
from delta_actors.mcp.http_exchange import AsgiReceive, ClientLeft, Exchange
from delta_actors.mcp.http_reply import AsgiSend, Reply, send_whole
from delta_actors.mcp.http_sessions import Conversations, HttpSession, Sessions
from delta_actors.mcp.http_streams import Stream, Streams
from delta_actors.mcp.resources import Watcher
from delta_actors.mcp.session_state import SessionState
from delta_actors.mcp.subscribers import Subscribers, Wanted, is_listen, listen, listen_result
from delta_protocol import jsonrpc
from delta_protocol.errors import DeltaError, Invalid, Refused
from delta_protocol.jsonrpc import INVALID_REQUEST, Malformed, Message, Notification, Request, Response
from delta_protocol.mcp import errors, http_ladder, incoming, outgoing, versions
from delta_protocol.mcp.bearer import bearer_token
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.http_ladder import HttpRefusal
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.wire.message import Principal

logger = logging.getLogger(__name__)

_SMALL_BODY = 16 << 10
"""Bodies up to this size are read before there is room for the request: its kind is not known yet."""
_RETRY = (b"retry-after", b"1")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Seconds and bytes. `key` seals session ids; whoever serves with the same key knows the same sessions.

    `hosts`, `origins`: allowed beside loopback. `max_requests`: in progress at once; more are answered 503.
    `patience`: how long a request may stay silent before its response becomes a stream. `graceful`: how long requests
    may finish after shutdown. `stall`: how long a client may stop reading before its connection is cut. `connections`:
    how many may be open, idle ones included; more wait to be accepted. `recheck`: how often the credentials of an open
    stream are looked at again.
    """

    key: bytes
    path: str = "/mcp"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body: int = 4 << 20
    max_requests: int = 256
    session_idle: float = 3600.0
    patience: float = 5.0
    keep_alive: float = 15.0
    graceful: float = 3.0
    stall: float = 15.0
    connections: int = 4096
    recheck: float = 60.0


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
        self._executor = executor
        self._subscribers = subscribers
        self._settings = settings
        self._access = as_access(authenticate)
        self._hosts = (*settings.hosts, *self._access.resource.hosts)
        self._shutdown = trio.Event() if shutdown is None else shutdown
        self._sessions = Sessions(settings.key, settings.session_idle)
        self._conversations = Conversations()
        self._requests = _Room(settings.max_requests)
        self._streams = _Room(settings.max_requests)
        self._resumable = Streams()

    def statistics(self) -> dict[str, int]:
        """Return how many requests, streams and sessions are open."""
        return {"requests": self._requests.taken, "streams": self._streams.taken, "sessions": len(self._sessions)}

    async def __call__(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1002})

    async def _serve(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        exchange = Exchange(scope, receive, send, trio.current_time())
        try:
            await self._route(exchange)
        except HttpRefusal as refusal:
            await exchange.refuse(refusal)
        except ClientLeft:
            await trio.lowlevel.checkpoint()

    async def _route(self, exchange: Exchange) -> None:
        settings = self._settings
        document = self._access.resource.document_at(exchange.path, settings.path)
        if document is not None and exchange.method in ("GET", "HEAD", "OPTIONS"):
            await send_metadata(exchange, document)
            return
        http_ladder.check_source(exchange.headers, self._hosts, settings.origins)
        if exchange.path != settings.path:
            raise HttpRefusal(
                404, INVALID_REQUEST, f"nothing is served at {exchange.path}; the endpoint is {settings.path}"
            )
        if exchange.method not in ("POST", "GET", "DELETE"):
            raise _not_allowed(exchange.method)
        exchange.principal = await self._admit(exchange, exchange.started)
        match exchange.method:
            case "POST":
                await self._post(exchange)
            case "GET":
                await self._get(exchange)
            case _:
                await self._delete(exchange)

    async def _admit(self, exchange: Exchange, since: float) -> Principal:
        """Return whose request it is, within the deadline that began at `since` (trio time)."""
        access, token = self._access, None
        try:
            token = bearer_token(exchange.headers.all("authorization"))
            with trio.fail_at(since + self._executor.deadline):
                principal = await access.authenticate(token, exchange.peer)
        except Invalid as error:
            raise refusal_of(access, error, 400, "invalid_request") from None
        except Refused as error:
            raise refusal_of(access, error, 401, "" if token is None else "invalid_token") from None
        except (DeltaError, trio.TooSlowError) as error:
            logger.warning("credentials could not be checked: %s", error)
            raise HttpRefusal(503, errors.OVERLOADED, "credentials cannot be checked now", headers=[_RETRY]) from None
        check_scopes(access, principal)
        return principal

    async def _wait_dismissed(self, exchange: Exchange) -> None:
        """Return at shutdown, or once the credentials that opened a stream are no longer good."""
        while True:
            with trio.move_on_after(self._settings.recheck):
                await self._shutdown.wait()
                return
            try:
                await self._admit(exchange, trio.current_time())
            except HttpRefusal as refusal:
                if refusal.status != 503:
                    return

    async def _post(self, exchange: Exchange) -> None:
        accepts = http_ladder.read_accept(exchange.headers)
        length = http_ladder.check_content(exchange.headers, self._settings.max_body)
        try:
            with trio.fail_at(exchange.started + self._executor.deadline):
                if length is not None and length <= _SMALL_BODY:
                    message = await self._read_message(exchange)
                else:
                    with self._requests.take():
                        message = await self._read_message(exchange)
        except trio.TooSlowError:
            raise HttpRefusal(408, INVALID_REQUEST, "the body did not arrive in time") from None
        era = http_ladder.era_of_post(message, exchange.headers)
        if "legacy" not in self._executor.eras or (era == "modern" and "modern" in self._executor.eras):
            await self._modern(exchange, message, accepts)
        else:
            await self._legacy(exchange, message, accepts)

    async def _read_message(self, exchange: Exchange) -> Message:
        body = await exchange.read_body(self._settings.max_body)
        try:
            return jsonrpc.parse(body)
        except Malformed as error:
            raise HttpRefusal(400, error.code, error.message, id=error.id) from None

    async def _modern(self, exchange: Exchange, message: Message, accepts: http_ladder.Accepts) -> None:
        if isinstance(message, Notification):
            await send_whole(exchange.send, 202)
            return
        if isinstance(message, Response):
            raise HttpRefusal(400, INVALID_REQUEST, "a client sends no responses in this revision")
        call = http_ladder.accept_modern(message, exchange.headers)
        check_scopes(self._access, exchange.principal, self._executor.methods.scopes(call), call.id)
        reply = self._reply(exchange, call, accepts)
        conversation = self._conversations.name(exchange.principal, call.client)
        if is_listen(call):
            with self._streams.take(call.id):
                work = partial(self._listen, exchange, call, self._wanted(exchange, call, conversation), reply)
                await self._run(exchange, reply, work, cancel_on_leave=True)
            return
        with self._requests.take(call.id):
            work = partial(self._answer, exchange, call, reply, None, conversation)
            await self._run(exchange, reply, work, cancel_on_leave=True)

    def _wanted(self, exchange: Exchange, call: IncomingCall, conversation: str) -> Wanted:
        try:
            return self._subscribers.honoured(call, exchange.principal, conversation)
        except RpcError as error:
            raise HttpRefusal.from_rpc(400, error, call.id) from None

    async def _listen(self, exchange: Exchange, call: IncomingCall, wanted: Wanted, reply: Reply) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, call, wanted, self._subscribers, reply)
            await self._wait_dismissed(exchange)
            nursery.cancel_scope.cancel()
        result = outgoing.shape(self._executor.identity, call.era, call.method, listen_result(call))
        await reply.finish(Answer(jsonrpc.encode_result(call.id, result)))

    async def _legacy(self, exchange: Exchange, message: Message, accepts: http_ladder.Accepts) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(exchange, message)
            return
        session = self._session(exchange, message.id if isinstance(message, Request) else None)
        match message:
            case Request():
                await self._legacy_request(exchange, message, session, accepts)
            case Notification():
                if message.method == "notifications/cancelled":
                    cancelled = incoming.cancelled_id(message)
                    if cancelled is not None and (scope := session.scopes.get(cancelled)) is not None:
                        scope.cancel()
                await send_whole(exchange.send, 202)
            case Response():
                session.questions.answer(message)
                await send_whole(exchange.send, 202)

    async def _initialize(self, exchange: Exchange, request: Request) -> None:
        try:
            settled = incoming.read_initialize(request)
        except RpcError as error:
            raise HttpRefusal.from_rpc(400, error, request.id) from None
        result = outgoing.initialize_result(
            self._executor.identity, settled.version, self._executor.methods.capabilities("legacy")
        )
        header = (versions.HEADER_SESSION.encode(), self._sessions.open(settled, exchange.principal).encode())
        await send_whole(exchange.send, 200, jsonrpc.encode_result(request.id, result), [header])

    def _session(self, exchange: Exchange, identity: jsonrpc.Id | None = None) -> HttpSession:
        sealed = exchange.headers.get(versions.HEADER_SESSION)
        if sealed is None:
            reason = f"the header {versions.HEADER_SESSION} is missing; send initialize first"
            raise HttpRefusal(400, INVALID_REQUEST, reason, id=identity)
        session = self._sessions.find(sealed, exchange.principal)
        if session is None:
            raise HttpRefusal(404, INVALID_REQUEST, "no such session; send initialize again", id=identity)
        return session

    async def _legacy_request(
        self, exchange: Exchange, request: Request, session: HttpSession, accepts: http_ladder.Accepts
    ) -> None:
        try:
            call = incoming.read_legacy(request, session.settled)
            check_scopes(self._access, exchange.principal, self._executor.methods.scopes(call), call.id)
            if call.id in session.scopes:
                raise RpcError(INVALID_REQUEST, f"a request with the id {call.id!r} is still in progress")
        except RpcError as error:
            raise HttpRefusal.from_rpc(400, error, request.id) from None
        reply = self._reply(exchange, call, accepts, session)
        ask = partial(session.questions.ask, reply) if reply.can_stream else None
        with self._requests.take(call.id):
            scope = session.scopes[call.id] = trio.CancelScope()
            try:
                with scope:
                    work = partial(
                        self._answer, exchange, call, reply, ask, session.conversation, session=session.state
                    )
                    await self._run(exchange, reply, work, cancel_on_leave=False)
            finally:
                reply.abandon()
                del session.scopes[call.id]
        if scope.cancelled_caught:
            await reply.end()

    async def _answer(
        self,
        exchange: Exchange,
        call: IncomingCall,
        reply: Reply,
        ask: Asker | None,
        conversation: str,
        *,
        session: SessionState | None = None,
    ) -> None:
        answer = await self._executor.execute(
            call, reply, ask, exchange.principal, conversation, started=exchange.started, session=session
        )
        await reply.finish(answer)

    async def _run(
        self, exchange: Exchange, reply: Reply, work: Callable[[], Awaitable[None]], *, cancel_on_leave: bool
    ) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reply.keep_alive)
            nursery.start_soon(exchange.watch, nursery.cancel_scope if cancel_on_leave else None)
            await work()
            nursery.cancel_scope.cancel()

    def _reply(
        self, exchange: Exchange, call: IncomingCall, accepts: http_ladder.Accepts, session: HttpSession | None = None
    ) -> Reply:
        settings = self._settings
        return Reply(
            exchange.send,
            call.era,
            accepts,
            patience=settings.patience,
            keep_alive=settings.keep_alive,
            open_stream=partial(self._resumable.open, session.nonce) if session is not None else None,
            primes=call.version == versions.LATEST_LEGACY,
        )

    async def _get(self, exchange: Exchange) -> None:
        if exchange.headers.get(versions.HEADER_SESSION) is None:
            raise _not_allowed("GET")
        session = self._session(exchange)
        accepts = http_ladder.read_accept(exchange.headers)
        if not accepts.sse:
            raise HttpRefusal(406, INVALID_REQUEST, "Accept must allow text/event-stream")
        last_seen = exchange.headers.get(versions.HEADER_LAST_EVENT)
        with self._streams.take():
            if last_seen is None:
                await self._stream(exchange, session, accepts)
            else:
                await self._resume(exchange, session, last_seen, accepts)

    async def _resume(
        self, exchange: Exchange, session: HttpSession, last_seen: str, accepts: http_ladder.Accepts
    ) -> None:
        """Give the rest of a request's stream, as it comes."""
        found = self._resumable.find(session.nonce, last_seen)
        if found is None:
            raise HttpRefusal(400, INVALID_REQUEST, f"no stream of this session has the event {last_seen!r}")
        stream, number = found
        reply = Reply(exchange.send, "legacy", accepts, patience=0, keep_alive=self._settings.keep_alive)
        await self._run(exchange, reply, partial(_replay, stream, number, reply), cancel_on_leave=True)
        await reply.end()

    async def _stream(self, exchange: Exchange, session: HttpSession, accepts: http_ladder.Accepts) -> None:
        """Serve the standalone stream; a newer one of the same session takes its place."""
        if session.stream is not None:
            session.stream.cancel()
        reply = Reply(exchange.send, "legacy", accepts, patience=0, keep_alive=self._settings.keep_alive)
        with trio.CancelScope() as scope:
            session.stream = scope
            await self._run(
                exchange, reply, partial(self._tell_changes, exchange, session, reply), cancel_on_leave=True
            )
        if session.stream is scope:
            session.stream = None
        await reply.end()

    async def _tell_changes(self, exchange: Exchange, session: HttpSession, reply: Reply) -> None:
        settled = session.settled
        watcher = Watcher(exchange.principal, session.conversation, settled.client, settled.capabilities)
        with self._subscribers.subscribe(Wanted(uris=session.state.uris, watcher=watcher)) as subscription:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscription.tell, reply)
                await self._wait_dismissed(exchange)
                nursery.cancel_scope.cancel()

    async def _delete(self, exchange: Exchange) -> None:
        if exchange.headers.get(versions.HEADER_SESSION) is None:
            raise _not_allowed("DELETE")
        self._sessions.end(self._session(exchange))
        await send_whole(exchange.send, 200)


class _Room:
    """How many may be open at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    @contextmanager
    def take(self, identity: jsonrpc.Id | None = None) -> Generator[None, None, None]:
        """Count one in for the block. Refuses with 503 and Retry-After where there is no room."""
        if self.taken >= self._limit:
            reason = f"busy: more than {self._limit} requests in progress; try again later"
            raise HttpRefusal(503, errors.OVERLOADED, reason, id=identity, headers=[_RETRY])
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


async def _replay(stream: Stream, number: int, reply: Reply) -> None:
    reader = stream.attach()
    while (following := await stream.next_after(number, reader)) is not None:
        number, event = following
        await reply.send_event(event)


def _not_allowed(method: str) -> HttpRefusal:
    return HttpRefusal(
        405, INVALID_REQUEST, f"{method} is not allowed here", headers=[(b"allow", b"POST, GET, DELETE")]
    )


async def _lifespan(receive: AsgiReceive, send: AsgiSend) -> None:
    """Answer the server's start and stop; what must be opened belongs to the caller's nursery, not here."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return

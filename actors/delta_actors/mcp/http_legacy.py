"""Legacy sessions over HTTP: initialize, requests, the standalone stream, resumption, the end (spec 3.7).

A client that leaves does not cancel its request; it comes back for the rest.
"""

from __future__ import annotations

from functools import partial

import trio

from delta_actors.mcp.execute import Executor, Running
from delta_actors.mcp.http_admission import Admission
from delta_actors.mcp.http_exchange import Exchange
from delta_actors.mcp.http_reply import Reply, send_answer, send_whole
from delta_actors.mcp.http_room import Room
from delta_actors.mcp.http_sessions import HttpSession, Sessions
from delta_actors.mcp.http_settings import HttpSettings
from delta_actors.mcp.http_streams import Stream, Streams
from delta_actors.mcp.resources import Watcher
from delta_actors.mcp.subscribers import Subscribers, Wanted
from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import INVALID_REQUEST, Message, Notification, Request, Response
from delta_protocol.mcp import incoming, versions
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.http_coding import Accepts
from delta_protocol.mcp.http_ladder import HttpRefusal
from delta_protocol.mcp.incoming import IncomingCall


class LegacyEra:
    """Serves the sessions that `initialize` began."""

    def __init__(
        self,
        executor: Executor,
        subscribers: Subscribers,
        settings: HttpSettings,
        admission: Admission,
        *,
        requests: Room,
        streams: Room,
    ) -> None:
        self._executor = executor
        self._subscribers = subscribers
        self._settings = settings
        self._admission = admission
        self._requests = requests
        self._streams = streams
        self._sessions = Sessions(settings.key, settings.session_idle)
        self._resumable = Streams()

    def __len__(self) -> int:
        """How many sessions are known."""
        return len(self._sessions)

    async def serve(self, exchange: Exchange, message: Message, accepts: Accepts) -> None:
        """Answer one posted message."""
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(exchange, message, accepts)
            return
        session = self._session(exchange, message.id if isinstance(message, Request) else None)
        match message:
            case Request():
                await self._request(exchange, message, session, accepts)
            case Notification():
                if message.method == "notifications/cancelled":
                    cancelled = incoming.cancelled_id(message)
                    if cancelled is not None and (running := session.running.get(cancelled)) is not None:
                        running.withdraw()
                await send_whole(exchange.send, 202)
            case Response():
                session.questions.answer(message)
                await send_whole(exchange.send, 202)

    async def get(self, exchange: Exchange) -> None:
        """Serve the standalone stream, or the rest of a request's."""
        if exchange.headers.get(versions.HEADER_SESSION) is None:
            raise not_allowed("GET")
        session = self._session(exchange)
        accepts = exchange.accepts(self._settings)
        if not accepts.sse:
            raise HttpRefusal(406, INVALID_REQUEST, "Accept must allow text/event-stream")
        last_seen = exchange.headers.get(versions.HEADER_LAST_EVENT)
        with self._streams.take():
            if last_seen is None:
                await self._stream(exchange, session, accepts)
            else:
                await self._resume(exchange, session, last_seen, accepts)

    async def delete(self, exchange: Exchange) -> None:
        """End a session."""
        if exchange.headers.get(versions.HEADER_SESSION) is None:
            raise not_allowed("DELETE")
        self._sessions.end(self._session(exchange))
        await send_whole(exchange.send, 200)

    async def _initialize(self, exchange: Exchange, request: Request, accepts: Accepts) -> None:
        try:
            settled = incoming.read_initialize(request)
        except RpcError as error:
            raise HttpRefusal.from_rpc(400, error, request.id) from None
        settled, _, result = self._executor.begin(request, settled, self._settings.formats)
        header = (versions.HEADER_SESSION.encode(), self._sessions.open(settled, exchange.principal).encode())
        await send_answer(exchange.send, 200, jsonrpc.encode_result(request.id, result), accepts, [header])

    def _session(self, exchange: Exchange, identity: jsonrpc.Id | None = None) -> HttpSession:
        sealed = exchange.headers.get(versions.HEADER_SESSION)
        if sealed is None:
            reason = f"the header {versions.HEADER_SESSION} is missing; send initialize first"
            raise HttpRefusal(400, INVALID_REQUEST, reason, id=identity)
        session = self._sessions.find(sealed, exchange.principal)
        if session is None:
            raise HttpRefusal(404, INVALID_REQUEST, "no such session; send initialize again", id=identity)
        return session

    async def _request(self, exchange: Exchange, request: Request, session: HttpSession, accepts: Accepts) -> None:
        try:
            call = incoming.read_legacy(request, session.settled)
            if call.id in session.running:
                raise RpcError(INVALID_REQUEST, f"a request with the id {call.id!r} is still in progress")
        except RpcError as error:
            raise HttpRefusal.from_rpc(400, error, request.id) from None
        self._admission.check_scopes(exchange, self._executor.methods.scopes(call), call.id)
        reply = Reply(
            exchange.send,
            call.era,
            accepts,
            patience=self._settings.patience,
            keep_alive=self._settings.keep_alive,
            open_stream=partial(self._resumable.open, session.nonce),
            primes=call.version == versions.LATEST_LEGACY,
        )
        with self._requests.take(call.id):
            running = session.running[call.id] = Running()
            try:
                await exchange.run(reply, partial(self._answer, exchange, call, reply, session, running))
            finally:
                reply.abandon()
                del session.running[call.id]
        if running.withdrawn:
            await reply.end()

    async def _answer(
        self, exchange: Exchange, call: IncomingCall, reply: Reply, session: HttpSession, running: Running
    ) -> None:
        answer = await self._executor.execute(
            call,
            reply,
            partial(session.questions.ask, reply) if reply.can_stream else None,
            exchange.principal,
            session.conversation,
            started=exchange.started,
            session=session.state,
            running=running,
        )
        if not running.withdrawn:
            await reply.finish(answer)

    async def _resume(self, exchange: Exchange, session: HttpSession, last_seen: str, accepts: Accepts) -> None:
        """Give the rest of a request's stream, as it comes."""
        found = self._resumable.find(session.nonce, last_seen)
        if found is None:
            raise HttpRefusal(400, INVALID_REQUEST, f"no stream of this session has the event {last_seen!r}")
        stream, number = found
        reply = Reply(exchange.send, "legacy", accepts, patience=0, keep_alive=self._settings.keep_alive)
        with trio.CancelScope() as scope:
            await exchange.run(reply, partial(_replay, stream, number, reply), scope.cancel)
        await reply.end()

    async def _stream(self, exchange: Exchange, session: HttpSession, accepts: Accepts) -> None:
        """Serve the standalone stream; a newer one of the same session takes its place."""
        if session.stream is not None:
            session.stream.cancel()
        reply = Reply(exchange.send, "legacy", accepts, patience=0, keep_alive=self._settings.keep_alive)
        with trio.CancelScope() as scope:
            session.stream = scope
            await exchange.run(reply, partial(self._tell_changes, exchange, session, reply), scope.cancel)
        if session.stream is scope:
            session.stream = None
        await reply.end()

    async def _tell_changes(self, exchange: Exchange, session: HttpSession, reply: Reply) -> None:
        settled = session.settled
        watcher = Watcher(exchange.principal, session.conversation, settled.client, settled.capabilities)
        with self._subscribers.subscribe(Wanted(uris=session.state.uris, watcher=watcher)) as subscription:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscription.tell, reply)
                await self._admission.wait_dismissed(exchange)
                nursery.cancel_scope.cancel()


async def _replay(stream: Stream, number: int, reply: Reply) -> None:
    reader = stream.attach()
    while (following := await stream.next_after(number, reader)) is not None:
        number, event = following
        await reply.send_event(event)


def not_allowed(method: str) -> HttpRefusal:
    """Return the 405 refusal."""
    return HttpRefusal(
        405, INVALID_REQUEST, f"{method} is not allowed here", headers=[(b"allow", b"POST, GET, DELETE, OPTIONS")]
    )

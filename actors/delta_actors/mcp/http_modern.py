"""Modern requests over HTTP: the ladder, subscriptions, and a client that leaves cancels (spec 1.4, 1.9)."""

from __future__ import annotations

from functools import partial

import trio

from delta_actors.mcp.execute import Answer, Executor, Running
from delta_actors.mcp.http_admission import Admission
from delta_actors.mcp.http_exchange import Exchange
from delta_actors.mcp.http_reply import Reply, send_whole
from delta_actors.mcp.http_room import Room
from delta_actors.mcp.http_sessions import Conversations
from delta_actors.mcp.http_settings import HttpSettings
from delta_actors.mcp.subscribers import Subscribers, Wanted, is_listen, listen, listen_result
from delta_protocol import jsonrpc
from delta_protocol.jsonrpc import INVALID_REQUEST, Message, Notification, Response
from delta_protocol.mcp import http_ladder, outgoing
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.http_coding import Accepts
from delta_protocol.mcp.http_ladder import HttpRefusal
from delta_protocol.mcp.incoming import IncomingCall


class ModernEra:
    """Serves the requests that bring their version along."""

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
        self._conversations = Conversations()

    async def serve(self, exchange: Exchange, message: Message, accepts: Accepts) -> None:
        """Answer one posted message."""
        if isinstance(message, Notification):
            await send_whole(exchange.send, 202)
            return
        if isinstance(message, Response):
            raise HttpRefusal(400, INVALID_REQUEST, "a client sends no responses in this revision")
        call = http_ladder.accept_modern(message, exchange.headers)
        self._admission.check_scopes(exchange, self._executor.methods.scopes(call), call.id)
        settings = self._settings
        reply = Reply(exchange.send, call.era, accepts, patience=settings.patience, keep_alive=settings.keep_alive)
        conversation = self._conversations.name(exchange.principal, call.client)
        if is_listen(call):
            with self._streams.take(call.id):
                work = partial(self._listen, exchange, call, self._wanted(exchange, call, conversation), reply)
                with trio.CancelScope() as scope:
                    await exchange.run(reply, work, scope.cancel)
            return
        with self._requests.take(call.id):
            running = Running()
            work = partial(self._answer, exchange, call, reply, conversation, running)
            await exchange.run(reply, work, running.withdraw)

    async def _answer(
        self, exchange: Exchange, call: IncomingCall, reply: Reply, conversation: str, running: Running
    ) -> None:
        answer = await self._executor.execute(
            call, reply, None, exchange.principal, conversation, started=exchange.started, running=running
        )
        exchange.settle()
        if not running.withdrawn:
            await reply.finish(answer)

    def _wanted(self, exchange: Exchange, call: IncomingCall, conversation: str) -> Wanted:
        try:
            return self._subscribers.honoured(call, exchange.principal, conversation)
        except RpcError as error:
            raise HttpRefusal.from_rpc(400, error, call.id) from None

    async def _listen(self, exchange: Exchange, call: IncomingCall, wanted: Wanted, reply: Reply) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, call, wanted, self._subscribers, reply)
            await self._admission.wait_dismissed(exchange)
            nursery.cancel_scope.cancel()
        result = outgoing.shape(self._executor.identity, call.era, call.method, listen_result(call))
        # The server tells a finished request that its client left, and still has to close the connection then.
        with trio.CancelScope(shield=True):
            await reply.finish(Answer(jsonrpc.encode_result(call.id, result)))

"""A client's own request, passed to one connector, and the connector's own answer back, whatever era each speaks.

A modern connector asks its client by an answer, a legacy one by a question in the middle of the call; a modern client
is asked by an answer, a legacy one by a question. So there are four ways (spec 1.20):

    front    back     how
    legacy   legacy   the question goes up the open call, and its answer down
    modern   modern   the answer goes through; the connector's state travels sealed, with the connector's name
    legacy   modern   what the answer asks is asked of the client, then the request is sent again with its answers
    modern   legacy   the connector's call is held open until the client comes back (`held`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec

from delta_actors.gateway.caller import Caller, named
from delta_actors.gateway.held import HeldCall, HeldCalls
from delta_actors.gateway.offered import Offered
from delta_actors.mcp import ClientCannot, McpError, Question, RequestContext, RpcError
from delta_actors.runtime.actor import Listener, Ref
from delta_protocol.errors import ConnectorFailed, Overloaded, Refused
from delta_protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from delta_protocol.mcp import errors
from delta_protocol.mcp.results import Asked, asked_in, urls_in, without_modern
from delta_protocol.wire import message as wire
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, PassReply, PassRequest, PassTool

Make = Callable[[Json | None, str | None], PassTool | PassRequest]
"""Makes the request that carries these answers (a JSON object by key) and this state of the connector's."""

MOST_ROUNDS = 10
"""Times that one request of a legacy client may be sent again with answers."""


class _ErrorObject(msgspec.Struct):
    code: int = INTERNAL_ERROR
    data: msgspec.Raw = msgspec.Raw(b"")


class _State(msgspec.Struct):
    """What a modern client carries between its rounds: a connector's own state, or which of its calls is held."""

    connector: str
    state: str | None = None
    held: str = ""
    again: bool = False
    """The request is sent again as it was: its client was asked to open addresses first."""


class Relay:
    """Passes requests. `held` are the connectors' calls that wait for a modern client to come back."""

    def __init__(
        self,
        registry: Ref,
        offered: Offered,
        held: HeldCalls,
        longest: float,
        count: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """`longest`: seconds for one request. `count` counts a request in while it is in progress, or refuses it."""
        self._registry = registry
        self._offered = offered
        self._held = held
        self._longest = longest
        self._count = count

    async def request(self, context: RequestContext, what: str, make: Make) -> Json:
        """Return the connector's result; `what` names connector and request for people.

        Raises `RpcError` with the connector's error, `ConnectorFailed` where there is no answer, and what crosses from
        the registry.
        """
        async with self._count():
            return await self.pass_on(context, what, make)

    async def pass_on(self, context: RequestContext, what: str, make: Make) -> Json:
        """Do what `request` does, for a request that is counted in already."""
        caller = Caller(context, self._longest, exact=True)
        async with caller.open():
            result = await self._passed(context, caller, what, make)
        return self._offered.with_shown_uris(make(None, None).connector, result)

    async def _passed(self, context: RequestContext, caller: Caller, what: str, make: Make) -> Json:
        if not context.can_suspend:
            return await self._legacy(context, caller, what, make)
        if context.client_capabilities or context.carried is not None:
            return await self._modern(context, caller, what, make)
        return _result(context, what, await self._ask(make(None, None), caller.listen))

    async def _legacy(self, context: RequestContext, caller: Caller, what: str, make: Make) -> Json:
        request = make(None, None)
        for _ in range(MOST_ROUNDS):
            reply = await self._ask(request, caller.listen)
            asked = asked_in(reply.result)
            if asked is None:
                return _result(context, what, reply)
            questions = _named(request.connector, asked.questions)
            answers = await context.ask(*questions.values()) if questions else ()
            given = dict(zip(questions, answers, strict=True))
            request = make(_object(given) if given else None, asked.state)
        raise Refused(f"{what} asked more than {MOST_ROUNDS} times")

    async def _modern(self, context: RequestContext, caller: Caller, what: str, make: Make) -> Json:
        request, principal, carried = make(None, None), context.principal.id, context.carried
        if carried is not None:
            kept = _kept(carried.state, request.connector)
            if kept.held:
                call = self._held.find(kept.held, principal)
                call.answer(carried.answers)
                return await self._attend(context, caller, what, request.connector, call)
            if not kept.again:
                request = make(_object(carried.answers) if carried.answers else None, kept.state)
        call = self._held.begin(principal, partial(self._ask, request))
        return await self._attend(context, caller, what, request.connector, call)

    async def _attend(self, context: RequestContext, caller: Caller, what: str, connector: str, call: HeldCall) -> Json:
        """Wait for the connector's reply, or send the client away with what the connector asks."""
        call.caller = caller
        with self._held.attended(call):
            while (reply := await call.wait()) is None:
                if not self._held.may_hold(call):
                    call.refuse("too many calls wait for their clients' answers")
                    continue
                call.waiting = True
                try:
                    await context.suspend(call.asked, _text(_State(connector, held=call.id)))
                except ClientCannot as error:
                    call.waiting = False
                    call.refuse(error.message)
        if (asked := asked_in(reply.result)) is not None:
            await context.suspend(_named(connector, asked.questions), _text(_State(connector, asked.state)))
        if (urls := _urls(reply)) is not None:
            await context.suspend(_named(connector, urls.questions), _text(_State(connector, again=True)))
        return _result(context, what, reply)

    async def _ask(self, request: PassTool | PassRequest, listener: Listener) -> PassReply:
        return await self._registry.ask(request, listener=listener, nowait=True)


def _named(connector: str, questions: Mapping[str, Question]) -> dict[str, Question]:
    """Return the questions with the connector's name where a person reads them."""
    return {
        key: Question(each.method, named(wire.Question(connector, each.method, each.params)), key)
        for key, each in questions.items()
    }


def _object(members: Mapping[str, Json]) -> Json:
    return msgspec.json.encode({key: msgspec.Raw(text) for key, text in members.items()})


def _text(state: _State) -> str:
    return msgspec.json.encode(state).decode()


def _kept(text: str, connector: str) -> _State:
    """Return what the client carried. The library has unsealed it; a name may lead to another connector since."""
    kept = msgspec.json.decode(text, type=_State) if text else _State(connector)
    if kept.connector != connector:
        raise RpcError(INVALID_PARAMS, "requestState belongs to another connector; call again without it")
    return kept


def _result(context: RequestContext, what: str, reply: PassReply) -> Json:
    match reply.outcome:
        case Outcome.OK | Outcome.TOOL_ERROR:
            return reply.result if context.era == "modern" else without_modern(reply.result)
        case Outcome.REFUSED:
            raise _refusal(context, what, _error(reply))
        case Outcome.NOT_SENT:
            raise ConnectorFailed(f"{what} was not called: {reply.message}")
        case _:
            raise ConnectorFailed(f"{what} gave no answer and may have been carried out: {reply.message}")


def _refusal(context: RequestContext, what: str, error: RpcError) -> McpError:
    """Return a connector's error as the client's era has it: some codes are of one era alone (spec 1.1, 1.2)."""
    if context.era == "legacy" and error.code == errors.MISSING_CLIENT_CAPABILITY:
        return ClientCannot(what, error.message)
    if context.era == "modern" and error.code == errors.URL_ELICITATION_REQUIRED_LEGACY:
        return RpcError(INTERNAL_ERROR, error.message, error.data)
    return error


def _error(reply: PassReply) -> RpcError:
    try:
        found = msgspec.json.decode(reply.error or b"{}", type=_ErrorObject)
    except msgspec.DecodeError:
        found = _ErrorObject()
    return RpcError(found.code, reply.message, bytes(found.data) or None)


def _urls(reply: PassReply) -> Asked | None:
    if reply.outcome is not Outcome.REFUSED:
        return None
    error = _error(reply)
    return urls_in(error.data) if error.code == errors.URL_ELICITATION_REQUIRED_LEGACY else None


def busy(error: Overloaded) -> Overloaded:
    """Return the error as a client is told."""
    wait = float(error.detail.get("retry_after", 1.0))
    return Overloaded(f"busy: {error.message}; try again in {wait:g} s", retry_after=wait)

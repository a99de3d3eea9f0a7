"""A client's own request, passed to one connector, and the connector's own answer back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec

from delta_actors.gateway.caller import Caller
from delta_actors.mcp import RequestContext, RpcError
from delta_actors.runtime.actor import Ref
from delta_protocol.errors import ConnectorFailed, Overloaded
from delta_protocol.mcp.results import without_modern
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, PassReply, PassRequest, PassTool

Make = Callable[[Json | None, str | None], PassTool | PassRequest]
"""Makes the request that carries these answers (a JSON object by key) and this state of the connector's."""

_ERROR = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Relay:
    """Passes requests. `open` counts a client's request in while it is in progress, and refuses it when stopping."""

    def __init__(self, registry: Ref, longest: float, count: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """`longest`: seconds for one request."""
        self._registry = registry
        self._longest = longest
        self._count = count

    async def request(self, context: RequestContext, what: str, make: Make) -> Json:
        """Return the connector's result; `what` names connector and request for people.

        Raises `RpcError` with the connector's error, `ConnectorFailed` where there is no answer, and what crosses from
        the registry.
        """
        async with self._count():
            caller = Caller(context, self._longest)
            async with caller.open():
                return await self.pass_on(context, caller, what, make)

    async def pass_on(self, context: RequestContext, caller: Caller, what: str, make: Make) -> Json:
        """Do what `request` does, inside an open `caller`."""
        reply = await self._registry.ask(make(None, None), listener=caller.listen, nowait=True)
        return _result(context, what, reply)


def _result(context: RequestContext, what: str, reply: PassReply) -> Json:
    match reply.outcome:
        case Outcome.OK | Outcome.TOOL_ERROR:
            return reply.result if context.era == "modern" else without_modern(reply.result)
        case Outcome.REFUSED:
            raise _error(reply, what)
        case Outcome.NOT_SENT:
            raise ConnectorFailed(f"{what} was not called: {reply.message}")
        case _:
            raise ConnectorFailed(f"{what} gave no answer and may have been carried out: {reply.message}")


def _error(reply: PassReply, what: str) -> RpcError:
    members = _ERROR.decode(reply.error or b"{}")
    code = msgspec.json.decode(members["code"]) if "code" in members else -32603
    data = bytes(members["data"]) if "data" in members else None
    return RpcError(code, reply.message or what, data)


def busy(error: Overloaded) -> Overloaded:
    """Return the error as a client is told."""
    wait = float(error.detail.get("retry_after", 1.0))
    return Overloaded(f"busy: {error.message}; try again in {wait:g} s", retry_after=wait)

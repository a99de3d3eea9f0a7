"""The journal's side of the registry: writes and reads of connectors, their errors as outcomes.

What matters about an error is one question: did the call leave? Where that is not certain it is `no_reply`.
"""

from __future__ import annotations

import hashlib

from delta_actors.runtime.actor import Listener, Ref
from delta_protocol.catalogue.results import decoded
from delta_protocol.changes.steps import Look, Reply, Send
from delta_protocol.errors import (
    ActorCrashed,
    ActorUnavailable,
    ConnectorFailed,
    DeadlineExceeded,
    DeltaError,
    Invalid,
    Overloaded,
)
from delta_protocol.wire.message import Json, Origin, Principal
from delta_protocol.wire.registry import Outcome, ReadTool, ToolReply, WriteTool


class Connectors:
    """Calls connectors on behalf of one delta's principal."""

    def __init__(self, registry: Ref, principal: Principal, origin: Origin | None, listener: Listener | None) -> None:
        self._registry = registry
        self._principal = principal
        self._origin = origin
        self._listener = listener

    async def look(self, step: Look) -> Reply:
        """Make a read; whatever goes wrong means that nothing was seen."""
        try:
            reply = await self._registry.ask(
                ReadTool(step.connector, step.tool, step.arguments),
                principal=self._principal,
                origin=self._origin,
                listener=self._listener,
            )
        except DeltaError as error:
            return Reply(Outcome.NOT_SENT, None, error.message)
        return _reply(reply)

    async def send(self, step: Send, delta: str, stage: int, digest: str) -> Reply:
        """Make a write. The key names delta, call and arguments, so that no two calls share one (acceptance 88)."""
        name = f"{delta}:{stage}.{step.number}{'.back' if step.back else ''}"
        key = f"{name}:{hashlib.sha256(step.arguments).hexdigest()}"
        request = WriteTool(step.connector, step.tool, step.arguments, delta, name, key, digest)
        try:
            reply = await self._registry.ask(
                request, principal=self._principal, origin=self._origin, listener=self._listener
            )
        except ActorCrashed as error:
            left = error.detail.get("executed") != "no"
            return Reply(Outcome.NO_REPLY if left else Outcome.NOT_SENT, None, error.message)
        except (ActorUnavailable, Overloaded) as error:
            after = error.detail.get("retry_after")
            return Reply(Outcome.NOT_SENT, None, error.message, float(after) if after is not None else None)
        except (DeadlineExceeded, ConnectorFailed) as error:
            return Reply(Outcome.NO_REPLY, None, error.message)
        except DeltaError as error:
            refused = error.code in {"invalid", "not_found", "refused", "write_not_planned", "limit_exceeded"}
            return Reply(Outcome.REFUSED if refused else Outcome.NO_REPLY, None, error.message)
        return _reply(reply)


def _reply(reply: ToolReply) -> Reply:
    result: Json | None = None
    if reply.outcome is Outcome.OK:
        try:
            result = decoded(reply.result)
        except Invalid:
            # Made, whatever it said.
            result = b"null"
    return Reply(reply.outcome, result, reply.message, reply.retry_after)

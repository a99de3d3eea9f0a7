"""Requests from a legacy server to its client, and the answers that come back (spec 3.4)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import trio

from delta_actors.mcp.context import Channel
from delta_protocol.jsonrpc import Json, Response, encode_request
from delta_protocol.mcp.errors import ClientCannot, RpcError
from delta_protocol.mcp.outgoing import cancelled_notification
from delta_protocol.mcp.questions import Question


class Questions:
    """The open questions of one legacy session. Ids are unguessable: an answer counts only for what was asked here."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}
        self._closed = False

    async def ask(self, channel: Channel, questions: Sequence[Question]) -> list[Json]:
        """Send the questions on `channel`, all at once, and return the client's results.

        Raises `RpcError` with the client's error, `ClientCannot` where the client left. A cancelled question is
        withdrawn by `notifications/cancelled`.
        """
        if len(questions) == 1:
            return [await self._ask(channel, questions[0].method, questions[0].params)]
        answers: list[Json] = [b""] * len(questions)

        async def put(index: int, question: Question) -> None:
            answers[index] = await self._ask(channel, question.method, question.params)

        async with trio.open_nursery() as nursery:
            for index, question in enumerate(questions):
                nursery.start_soon(put, index, question)
        return answers

    async def _ask(self, channel: Channel, method: str, params: Json) -> Json:
        if self._closed:
            raise ClientCannot(method, "the client is gone")
        identity = secrets.token_hex(12)
        pending = self._pending[identity] = _Pending()
        try:
            await channel.notify(encode_request(identity, method, params))
            await pending.done.wait()
        except trio.Cancelled:
            with trio.move_on_after(0.5, shield=True):
                await channel.notify(cancelled_notification(identity, "no longer needed"))
            raise
        finally:
            del self._pending[identity]
        return pending.outcome(method)

    def answer(self, response: Response) -> bool:
        """Deliver an answer; False where nothing with that id is open (a late or forged answer is ignored)."""
        pending = self._pending.get(response.id) if isinstance(response.id, str) else None
        if pending is None:
            return False
        pending.response = response
        pending.done.set()
        return True

    def close(self) -> None:
        """The client is gone: every open question ends with `ClientCannot`."""
        self._closed = True
        for pending in self._pending.values():
            pending.done.set()


class _Pending:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.response: Response | None = None

    def outcome(self, method: str) -> Json:
        if self.response is None:
            raise ClientCannot(method, "the client is gone")
        error = self.response.error
        if error is not None:
            raise RpcError(error.code, error.message, bytes(error.data) if error.data else None)
        assert self.response.result is not None
        return self.response.result

"""What a client can do when a server asks: fill in forms, open pages, sample a model, tell its roots (spec 1.14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp import tasks
from delta_protocol.mcp.errors import ClientCannot
from delta_protocol.mcp.types import json_object

Handler = Callable[[Json], Awaitable[Json]]
"""Takes the question's params as JSON text and returns the result's: an ElicitResult or a CreateMessageResult."""


@dataclass(frozen=True, slots=True)
class ClientFeatures:
    """What is declared, and how it is answered; called with a question it answers it.

    `roots` are `file:` URIs. `tasks` says that calls may become tasks, which the client then follows.
    """

    fill_form: Handler | None = None
    open_page: Handler | None = None
    sample: Handler | None = None
    roots: Sequence[str] | None = None
    tasks: bool = False

    @property
    def capabilities(self) -> Json:
        """The ClientCapabilities object for the parameters of a connection."""
        declared: dict[str, Any] = {}
        modes = {"form": self.fill_form, "url": self.open_page}
        elicitation: dict[str, Any] = {mode: {} for mode, handler in modes.items() if handler is not None}
        if elicitation:
            declared["elicitation"] = elicitation
        if self.sample is not None:
            declared["sampling"] = {}
        if self.roots is not None:
            declared["roots"] = {}
        if self.tasks:
            declared["extensions"] = {tasks.EXTENSION: {}}
        return msgspec.json.encode(declared)

    async def __call__(self, method: str, params: Json) -> Json:
        """Answer a question. Raises `ClientCannot` for one that was not declared, and what the handler raises."""
        if method == "roots/list" and self.roots is not None:
            await trio.lowlevel.checkpoint()
            return msgspec.json.encode({"roots": [{"uri": uri} for uri in self.roots]})
        handler = self._handler(method, params)
        if handler is None:
            raise ClientCannot(method, "this client does not answer that")
        return await handler(params)

    def _handler(self, method: str, params: Json) -> Handler | None:
        if method == "sampling/createMessage":
            return self.sample
        if method != "elicitation/create":
            return None
        asked = json_object(msgspec.json.decode(params))
        return self.open_page if asked.get("mode") == "url" else self.fill_form

"""What each conversation was shown: tool definitions stay as they were, and what changed since is said once.

A conversation's definitions are fixed by its first call; before that, only once every connector is known, so that a
client that lists the tools of a new stack, and lists them again when it is told so, sees what its connectors can do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delta_protocol.catalogue.model import Catalogue, ConnectorState
from delta_protocol.mcp.types import ToolDefinition
from delta_protocol.wire.message import Json

MOST = 1024

Definitions = Sequence[ToolDefinition | Json]


@dataclass(slots=True)
class Conversation:
    """`told`: the number of the catalogue up to which changes were said; None for one that was shown nothing yet."""

    definitions: Definitions
    told: int | None
    fixed: bool


class Conversations:
    """The most recent conversations, at most `MOST`. One that was forgotten begins anew with the newest catalogue."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def listed(self, name: str, catalogue: Catalogue, newest: Callable[[], Definitions]) -> Definitions:
        """Return what the conversation is shown when it lists the tools; `newest` makes the newest definitions."""
        conversation = self._seen(name, catalogue, newest)
        if conversation.told is None:
            conversation.told = catalogue.number
        return conversation.definitions

    def called(self, name: str, catalogue: Catalogue, newest: Callable[[], Definitions]) -> Conversation:
        """Return the conversation, fixed from now on."""
        conversation = self._seen(name, catalogue, newest)
        conversation.fixed = True
        return conversation

    def _seen(self, name: str, catalogue: Catalogue, newest: Callable[[], Definitions]) -> Conversation:
        conversation = self._known.get(name)
        if conversation is None:
            conversation = self._known[name] = Conversation(newest(), None, _all_known(catalogue))
            if len(self._known) > MOST:
                self._known.popitem(last=False)
        elif not conversation.fixed:
            conversation.definitions, conversation.told = newest(), catalogue.number
            conversation.fixed = _all_known(catalogue)
        self._known.move_to_end(name)
        return conversation


def _all_known(catalogue: Catalogue) -> bool:
    return all(one.tools or one.state is not ConnectorState.STARTING for one in catalogue.connectors)

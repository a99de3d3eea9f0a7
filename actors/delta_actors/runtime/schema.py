"""What a link's two ends say to each other: message types, their decoders and the digest that both compare."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, Union

import msgspec

from delta_protocol.wire.hello import schema_digest
from delta_protocol.wire.message import Item
from delta_protocol.wire.table import CONTROL, ITEMS


class Schema:
    """The requests and events of one callee, and the items that may flow on its calls."""

    def __init__(self, inbox: tuple[type[Any], ...], items: tuple[type[Item], ...]) -> None:
        self._inbox = inbox
        self._items = items

    @cached_property
    def digest(self) -> bytes:
        """What the greeting compares."""
        return schema_digest((*self._inbox, *self._items))

    @cached_property
    def inbox(self) -> msgspec.msgpack.Decoder[Any]:
        """Decodes a request or an event."""
        return msgspec.msgpack.Decoder(Union[self._inbox])  # noqa: UP007 - made of a tuple

    @cached_property
    def items(self) -> msgspec.msgpack.Decoder[Item]:
        """Decodes an item."""
        return msgspec.msgpack.Decoder(Union[self._items])  # noqa: UP007 - made of a tuple


@lru_cache
def schema_of(inbox: tuple[type[Any], ...], items: tuple[type[Item], ...] = ITEMS) -> Schema:
    """Return the schema of a role that understands `inbox`; made once per process."""
    return Schema(inbox, items)


@lru_cache
def control_schema() -> Schema:
    """Return the schema of the control socket."""
    return Schema(CONTROL, ITEMS)

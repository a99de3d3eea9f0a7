"""What frames between two actors carry: one tagged array per kind.

A link has a caller's end and a callee's end; only the caller asks. Ids are the caller's and count up per link.

    caller -> callee   Ask, Tell, Cancel, More, AnswerUp, NoAnswer
    callee -> caller   Reply, Fail, Credit, Down, QuestionDown

Credit: a link begins with what `Welcome` grants. An Ask takes one; Reply and Fail give it back, and so does `Credit`
for a cancelled call, which gets no reply. In each case the handler has really ended. Items have a window of their own
(`ITEM_WINDOW` per call), given back by `More`.

Tags are forever: new kinds get new numbers.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from delta_protocol.errors import Failure
from delta_protocol.wire.message import Origin, Principal

ITEM_WINDOW = 16
"""Items that may be on their way down on one call before the caller took one."""

NO_DEADLINE = 0


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Open a call. `deadline`: absolute CLOCK_MONOTONIC nanoseconds, or `NO_DEADLINE`. `body`: a tagged `Request`."""

    id: int
    deadline: int
    body: msgspec.Raw
    principal: Principal | None = None
    origin: Origin | None = None
    trace: str = ""


class Reply(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The one answer of a call that succeeded. `body`: the request's reply type."""

    id: int
    body: msgspec.Raw


class Fail(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The one answer of a call that failed."""

    id: int
    failure: Failure


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The caller no longer wants the call: its handler is cancelled and no reply is owed."""

    id: int


class Credit(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Gives back the credit of `count` cancelled calls whose handlers have ended."""

    count: int


class Down(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """An item on an open call. `body`: a tagged `Item`."""

    id: int
    body: msgspec.Raw


class QuestionDown(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """An item that wants an answer. `number` counts up within the call."""

    id: int
    number: int
    body: msgspec.Raw


class AnswerUp(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The answer to a question. `body`: a tagged `Item`."""

    id: int
    number: int
    body: msgspec.Raw


class More(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """The caller has taken `count` items of the call."""

    id: int
    count: int


class Tell(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """An event. `body`: a tagged `Event`."""

    body: msgspec.Raw
    principal: Principal | None = None
    origin: Origin | None = None
    trace: str = ""


class NoAnswer(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    """Why a question gets no answer."""

    id: int
    number: int
    failure: Failure


FromCaller = Ask | Tell | Cancel | More | AnswerUp | NoAnswer
FromCallee = Reply | Fail | Credit | Down | QuestionDown


def body(message: object) -> msgspec.Raw:
    """Return `message` as a field of an envelope that is about to be encoded.

    msgspec encodes the value it finds there, so a message goes into the frame in one pass, without bytes of its own in
    between; only a decoded envelope really holds `Raw`.
    """
    return cast(msgspec.Raw, cast(Any, message))

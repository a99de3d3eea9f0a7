"""The callee of the link benchmark: run as `link_echo PEER FD` for the peers, loaded as an actor for the link.

Every peer answers the same envelopes in the same frames; they differ in what moves the bytes.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import sys
from collections.abc import Callable
from typing import Any, cast

import msgspec

from delta_actors.runtime import Actor, Call, Context, Handlers
from delta_protocol.framing import FrameReader, FrameWriter
from delta_protocol.wire.envelope import Ask, FromCaller, Reply, body
from delta_protocol.wire.message import Request, Role

ROLE: str = Role.RESULTS


class Found(msgspec.Struct, frozen=True, array_like=True):
    """An answer of about a hundred bytes."""

    names: tuple[str, ...]
    more: bool


class Lookup(Request[Found], frozen=True):
    """A question of about a hundred bytes, answered in the reader's step."""

    server: str
    tool: str
    query: str
    limit: int


class LookupInWorker(Request[Found], frozen=True):
    """The same, answered by a handler that may wait."""

    server: str
    tool: str
    query: str
    limit: int


QUESTION = ("github", "search_issues", "is:open label:bug sort:updated-desc", 25)
ANSWER = Found(("issue-1", "issue-2", "issue-3"), more=True)
INBOX: tuple[type[Any], ...] = (Lookup, LookupInWorker)


class EchoActor(Actor):
    """Answers both."""

    role = ROLE
    inboxes = {ROLE: INBOX}  # noqa: RUF012 - the contract's class variable

    async def start(self, context: Context) -> tuple[str, ...]:
        """Nothing to open."""
        return ()

    def handlers(self) -> Handlers:
        """One inline, one in a worker."""
        handlers = Handlers()
        handlers.ask_inline(Lookup, lambda _request, _call: ANSWER)
        handlers.ask(LookupInWorker, self.look_up)
        return handlers

    async def look_up(self, _request: LookupInWorker, _call: Call) -> Found:
        """Answer without waiting, in a worker all the same."""
        return ANSWER


class Answerer:
    """Bytes in, bytes out: decode, answer, encode, for peers that are no actors."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._decode = msgspec.msgpack.Decoder(FromCaller).decode
        self._request = msgspec.msgpack.Decoder(Lookup | LookupInWorker).decode

    def answer(self, data: bytes) -> bytes:
        """Return the replies to what `data` completes."""
        writer = FrameWriter()
        for message in self._reader.feed(data):
            ask = self._decode(message)
            assert isinstance(ask, Ask)
            self._request(ask.body)
            writer.post(Reply(ask.id, body(ANSWER)))
        return bytes(writer.buffer)


class EchoProtocol(asyncio.Protocol):
    """The asyncio callee."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self._answerer = Answerer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer a batch with one write."""
        if answers := self._answerer.answer(data):
            self._transport.write(answers)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.closed.set_result(None)


async def serve_loop(sock: socket.socket) -> None:
    """Answer until the caller closes."""
    _, protocol = await asyncio.get_running_loop().create_connection(EchoProtocol, sock=sock)
    await protocol.closed


def serve_blocking(sock: socket.socket) -> None:
    """Answer with plain blocking calls: the least a Python process can do."""
    answerer = Answerer()
    while data := sock.recv(64 << 10):
        sock.sendall(answerer.answer(data))


def runner(peer: str) -> Callable[[Any], Any]:
    """Return `asyncio.run` or `uvloop.run`. `ImportError` without uvloop."""
    run: Callable[[Any], Any] = asyncio.run if peer == "asyncio" else importlib.import_module("uvloop").run
    return run


if __name__ == "__main__":
    given = socket.socket(fileno=int(sys.argv[2]))
    if sys.argv[1] == "blocking":
        serve_blocking(given)
    else:
        runner(sys.argv[1])(serve_loop(given))

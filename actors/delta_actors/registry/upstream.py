"""One connector: its queue, and the calls through its sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import trio

from delta_actors.mcp import DeltaClient, McpError, NoReply, NotSent, OnQuestion
from delta_actors.registry import calls
from delta_actors.registry.forwarding import forward, meta_of
from delta_actors.registry.listener import Listener
from delta_actors.registry.secrets import ConnectorSecrets
from delta_actors.registry.session import Session
from delta_actors.registry.sessions import Sessions
from delta_actors.runtime.actor import Call
from delta_protocol.catalogue.model import Connector
from delta_protocol.config import ConnectorConfig
from delta_protocol.errors import ConnectorFailed, Overloaded
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, PassReply, ServiceStatus, ToolReply

STDERR_SHOWN = 4_096
CLOSING = 1.0
"""Seconds to wait for a session's end to be seen after a call lost its answer."""
MARGIN = 0.1
"""Seconds before the caller's deadline at which a write's outcome is said to be unknown."""


class Upstream:
    """A configured connector. Its first session lists the tools and, if shared, carries all calls."""

    def __init__(
        self,
        name: str,
        config: ConnectorConfig,
        listener: Listener,
        slots: trio.CapacityLimiter,
        nursery: trio.Nursery,
        state_dir: Path,
    ) -> None:
        self.name = name
        self.config = config
        self._nursery = nursery
        self._secrets = ConnectorSecrets(config)
        self._sessions = Sessions(name, config, listener, slots, nursery, state_dir, self._secrets)
        self._open = 0

    def start(self) -> None:
        """Start the first session, once."""
        self._sessions.start()

    async def ready(self) -> None:
        """Wait until the first session is open. Raises `ConnectorFailed`, with the reason, where it cannot be
        opened."""
        self.start()
        try:
            if self._sessions.first is None:
                raise NotSent(f"{self.name} cannot be started: {self.config.fault}")
            await self._sessions.first.client()
        except NotSent as error:
            raise ConnectorFailed(self._secrets.text(error.message), connector=self.name) from None

    async def read(self, tool: str, arguments: Json, call: Call) -> ToolReply:
        """Make a call that only reads: ended with its caller, made once more if its session died under it.

        Raises `Overloaded` where the connector's queue is full.
        """
        async with self._place():
            with trio.move_on_after(self.config.call_timeout) as limit:
                return self._clean(await self._read(tool, arguments, call, limit))
            assert limit.cancelled_caught
            return ToolReply(Outcome.NO_REPLY, message=f"{self.name}: no answer within {self.config.call_timeout:g} s")

    async def write(self, tool: str, arguments: Json, call: Call) -> ToolReply:
        """Make a call once. From when it is sent nothing cuts it: if its caller stops waiting, it goes on by itself,
        for the connector's `call_timeout` at most, and its outcome is unknown to the caller.

        Raises `Overloaded` where the connector's queue is full.
        """
        async with self._place():
            try:
                session = self._sessions.of(call)
                client: DeltaClient | None = None
                with trio.move_on_at(call.deadline - MARGIN):
                    client = await session.client()
            except NotSent as error:
                return self._clean(calls.failed(error))
            if client is None:
                return ToolReply(Outcome.NOT_SENT, message=f"{self.name} did not start by the deadline")
            sent = _Sent()
            self._nursery.start_soon(self._send, session, client, tool, arguments, call, sent)
            try:
                with trio.move_on_at(call.deadline - MARGIN):
                    await sent.done.wait()
            finally:
                sent.awaited = False
            late = ToolReply(Outcome.NO_REPLY, message=f"{self.name}: no answer by the deadline")
            return self._clean(sent.reply or late)

    async def forward(self, method: str, params: Json, call: Call, *, again: bool) -> PassReply:
        """Make a client's own request: ended with its caller, and with `again` made once more if its session died.

        Raises `Overloaded` where the connector's queue is full.
        """
        async with self._place():
            lost: McpError | None = None
            with trio.move_on_after(self.config.call_timeout) as limit:
                for _ in range(2 if again else 1):
                    try:
                        session = self._sessions.of(call)
                        client = await session.client()
                    except NotSent as error:
                        lost = lost or error
                        break
                    try:
                        with _in_use(session):
                            asked = calls.patient(limit, self._questions(call, client, told=True))
                            in_task = calls.patient(limit, calls.questions(self.name, call))
                            return await forward(session, client, method, params, call, asked, in_task)
                    except (NotSent, NoReply) as error:
                        lost = error
                        if not (again and await self._may_repeat(session, client)):
                            break
            if limit.cancelled_caught:
                lost = NoReply(f"{self.name}: no answer within {self.config.call_timeout:g} s")
            assert lost is not None
            outcome = Outcome.NOT_SENT if isinstance(lost, NotSent) else Outcome.NO_REPLY
            return PassReply(outcome, message=self._named(lost.message))

    def shown(self) -> None:
        """A client was shown what the connector lists."""
        self._sessions.shown()

    def status(self, known: Connector) -> ServiceStatus:
        """Return the connector's health, that of its first session; `known` is how the catalogue has it."""
        first = self._sessions.first
        client = first.current if first else None
        waiting = "" if first or known.detail else "it starts when it is first needed"
        return ServiceStatus(
            begun=first is not None,
            name=self.name,
            state=known.state,
            detail=known.detail or waiting,
            server=known.server,
            era=client.era if client else "",
            pid=client.pid if client else None,
            tools=sum(not tool.gone for tool in known.tools),
            restarts=max(0, first.starts - 1) if first else 0,
            junk_lines=first.junk_lines if first else 0,
            stderr_tail=self._secrets.text(first.stderr_tail)[-STDERR_SHOWN:] if first else "",
        )

    async def _read(self, tool: str, arguments: Json, call: Call, limit: trio.CancelScope) -> ToolReply:
        try:
            session = self._sessions.of(call)
        except NotSent as error:
            return calls.failed(error)
        lost: McpError | None = None
        for _ in range(2):
            try:
                client = await session.client()
            except NotSent as error:
                return calls.failed(lost or error)
            try:
                with _in_use(session):
                    asked = calls.patient(limit, self._questions(call, client))
                    return await calls.make(client, tool, arguments, call, asked, meta=meta_of(client, call))
            except (NotSent, NoReply) as error:
                lost = error
                if (isinstance(error, NotSent) and error.retry_after is not None) or not await self._may_repeat(
                    session, client
                ):
                    break
        assert lost is not None
        return calls.failed(lost)

    async def _may_repeat(self, session: Session, client: DeltaClient) -> bool:
        """Whether a read that got no answer may be made once more: over HTTP at once, else on the next process."""
        if self.config.url is not None:
            return True
        with trio.move_on_after(CLOSING):
            await client.wait_closed()
            await session.wait_without(client)
            return True
        return False

    async def _send(
        self, session: Session, client: DeltaClient, tool: str, arguments: Json, call: Call, sent: _Sent
    ) -> None:
        try:
            with trio.move_on_after(self.config.call_timeout) as limit, _in_use(session):
                asked = calls.patient(limit, self._questions(call, client))
                sent.reply = await calls.make(
                    client, tool, arguments, call, asked, lambda: sent.awaited, meta_of(client, call)
                )
            if sent.reply is None:
                message = f"{self.name}: no answer within {self.config.call_timeout:g} s"
                sent.reply = ToolReply(Outcome.NO_REPLY, message=message)
        except McpError as error:
            sent.reply = calls.failed(error)
        finally:
            sent.done.set()

    def _questions(self, call: Call, client: DeltaClient, *, told: bool = False) -> OnQuestion | None:
        """Return what takes the connector's questions during a call.

        A modern server asks in its answer, so everybody sees which call it is for; with `told` that answer goes to the
        client as it is. A legacy server names no call: only a session bound to one conversation may ask (architecture
        5).
        """
        if client.era == "modern":
            return None if told or call.origin is None else calls.questions(self.name, call)
        bound = self.config.session == "conversation" and call.origin is not None
        return calls.questions(self.name, call) if bound else None

    async def watch(self, uri: str, call: Call, *, wanted: bool) -> None:
        """Begin, or with `wanted` false end, that the client behind `call` watches a resource.

        Raises `Refused`, `ConnectorFailed`, `Overloaded`.
        """
        holder = f"{call.principal.id} {call.origin.conversation if call.origin else ''}"
        try:
            session = self._sessions.of(call)
            if not wanted:
                await session.watching.unwatch(uri, holder)
                return
            await session.client()
        except NotSent as error:
            raise ConnectorFailed(self._secrets.text(error.message), connector=self.name) from None
        await session.attended()
        await session.watching.watch(uri, holder)

    async def forget_watchers(self) -> None:
        """Nobody watches anything of this connector any more."""
        for session in list(self._sessions):
            await session.watching.clear()

    def _clean(self, reply: ToolReply) -> ToolReply:
        """Return the reply with words that may be stored and shown: without what the connector was given to keep, and
        where nothing came from the connector itself, with its name."""
        lost = reply.outcome in (Outcome.NOT_SENT, Outcome.NO_REPLY)
        message = self._named(reply.message) if lost else self._secrets.text(reply.message)
        return msgspec.structs.replace(reply, message=message)

    def _named(self, message: str) -> str:
        return self._secrets.text(message if message.startswith(self.name) else f"{self.name}: {message}")

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None]:
        """A place in the connector's bounded queue, so that a dead one cannot eat everybody's credit."""
        if self._open >= self.config.queue:
            raise Overloaded(f"{self.name} has {self._open} calls open", retry_after=1.0)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


class _Sent:
    """A write on its way. `awaited`: somebody still waits for it."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.reply: ToolReply | None = None
        self.awaited = True


@contextmanager
def _in_use(session: Session) -> Generator[None]:
    session.open_calls += 1
    try:
        yield
    finally:
        session.open_calls -= 1
        session.last_used = trio.current_time()

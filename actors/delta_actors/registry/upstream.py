"""One connector: its sessions, its queue, and the calls through them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import trio

from delta_actors.mcp import DeltaClient, McpError, NoReply, NotSent, OnQuestion
from delta_actors.registry import calls
from delta_actors.registry.following import Following
from delta_actors.registry.forwarding import forward, meta_of
from delta_actors.registry.listener import Listener
from delta_actors.registry.listening import Listening
from delta_actors.registry.opening import Era, open_client
from delta_actors.registry.secrets import ConnectorSecrets
from delta_actors.registry.session import Session
from delta_actors.runtime.actor import Call
from delta_protocol.catalogue.model import Connector, ConnectorState
from delta_protocol.config import ConnectorConfig
from delta_protocol.errors import ConnectorFailed, Overloaded
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import Outcome, PassReply, ServiceStatus, ToolReply

log = logging.getLogger("delta.registry")

MAX_SESSIONS = 16
"""Sessions of one connector beside its first, for principals or conversations; an idle one makes room."""
STDERR_SHOWN = 4_096
CLOSING = 1.0
"""Seconds to wait for a session's end to be seen after a call lost its answer."""
MARGIN = 0.1
"""Seconds before the caller's deadline at which a write's outcome is said to be unknown."""


_OnOpen = Callable[[DeltaClient, Session], Awaitable[None]]
_OnState = Callable[[ConnectorState, str], None]


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
        self._state_dir = state_dir
        self.config = config
        self._listener = listener
        self._slots = slots
        self._nursery = nursery
        self._secrets = ConnectorSecrets(config)
        self._first: Session | None = None
        self._more: dict[str, tuple[Session, trio.CancelScope]] = {}
        self._open = 0
        self._following: Following | None = None

    def start(self) -> None:
        """Start the first session, once."""
        if self._first is None and not self.config.fault:
            # Some servers list certain tools only to clients that can be asked: where some may be, they are listed.
            able = tuple(calls.DECLARED) if self.config.session == "conversation" else ()
            self._first = self._session(calls.declaration(able), "", "", self._introduced, self._state)
            self._nursery.start_soon(self._first.run)
        elif self.config.fault:
            self._state(ConnectorState.FAILED, self.config.fault)

    async def ready(self) -> None:
        """Wait until the first session is open. Raises `ConnectorFailed`, with the reason, where it cannot be
        opened."""
        self.start()
        try:
            if self._first is None:
                raise NotSent(f"{self.name} cannot be started: {self.config.fault}")
            await self._first.client()
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
                session = self._session_for(call)
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
                        session = self._session_for(call)
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
        if self._following is not None:
            self._following.shown()

    def status(self, known: Connector) -> ServiceStatus:
        """Return the connector's health, that of its first session; `known` is how the catalogue has it."""
        first = self._first
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
            session = self._session_for(call)
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

    def _session_for(self, call: Call) -> Session:
        self.start()
        key = self._key(call)
        if key is None:
            if self._first is None:
                raise NotSent(f"{self.name} cannot be started: {self.config.fault}")
            return self._first
        known = self._more.get(key)
        if known is None:
            self._make_room()
            capabilities = call.origin.capabilities if call.origin else ()
            each = self.config.session == "conversation" and call.origin is not None
            conversation = call.origin.conversation if each and call.origin is not None else ""
            session = self._session(
                calls.declaration(capabilities), call.principal.id, conversation, self._joined, _ignore
            )
            session.bound = self.config.session == "conversation"
            known = self._more[key] = (session, trio.CancelScope())
            self._nursery.start_soon(self._run_more, *known)
        return known[0]

    def _key(self, call: Call) -> str | None:
        """Whose session the call goes through; None is the first one. Principals are told apart everywhere."""
        if self.config.fault or self.config.session == "shared":
            return None
        if self.config.session == "principal":
            return call.principal.id
        if call.origin is None:
            return None
        key = f"{call.principal.id} {call.origin.conversation}"
        if self._listener.era(self.name) == "modern":
            return key
        # A legacy server is told once what its client can do; a modern client says it anew with every request.
        return f"{key} {' '.join(call.origin.capabilities)}"

    def _make_room(self) -> None:
        if len(self._more) < MAX_SESSIONS:
            return
        idle = [key for key, (session, _) in self._more.items() if not (session.open_calls or session.watching)]
        if not idle:
            raise Overloaded(f"{self.name} has {MAX_SESSIONS} sessions in use", retry_after=1.0)
        oldest = min(idle, key=lambda key: self._more[key][0].last_used)
        self._more.pop(oldest)[1].cancel()

    async def _run_more(self, session: Session, scope: trio.CancelScope) -> None:
        with scope:
            await session.run()

    def _session(
        self, capabilities: Json, principal: str, conversation: str, on_open: _OnOpen, on_state: _OnState
    ) -> Session:
        """Return a session. What it tells of resources concerns the principal and conversation that it belongs to."""

        async def opened(client: DeltaClient) -> None:
            await on_open(client, session)

        session = Session(
            self.name,
            partial(self._remembering_era, capabilities),
            self._slots,
            self.config.start_timeout,
            on_open=opened,
            on_state=on_state,
        )
        session.on_updated = partial(self._listener.updated, self.name, principal, conversation)
        return session

    @asynccontextmanager
    async def _remembering_era(self, capabilities: Json) -> AsyncGenerator[DeltaClient]:
        """Open in the remembered era; where that fails, the next start finds it out anew."""
        era = self._listener.era(self.name) or "auto"
        opened = False
        try:
            place = (self._state_dir, self._secrets.add)
            async with open_client(self.name, self.config, cast("Era", era), capabilities, *place) as client:
                opened = True
                yield client
        except McpError:
            if not opened:
                self._listener.forget_era(self.name)
            raise

    async def _introduced(self, client: DeltaClient, session: Session) -> None:
        """List the tools, and follow from now on what the connector lists."""
        self._listener.opened(self.name, client)
        following = self._following = Following(self.name, client, self._listener, self.config.start_timeout)
        session.on_told = lambda method, _params: following.take(method)
        self._listener.listed(self.name, await client.list_tools())
        self._nursery.start_soon(session.attend, client, Listening(client, following.announced), following.run)

    async def _joined(self, client: DeltaClient, session: Session) -> None:
        """A session beside the first lists tools only to learn which arguments its headers repeat (spec 1.5)."""
        if client.era == "modern" and self.config.url is not None:
            await client.list_tools()
        self._nursery.start_soon(session.attend, client, Listening(client, ()))

    async def watch(self, uri: str, call: Call, *, wanted: bool) -> None:
        """Begin, or with `wanted` false end, that the client behind `call` watches a resource.

        Raises `Refused`, `ConnectorFailed`, `Overloaded`.
        """
        holder = f"{call.principal.id} {call.origin.conversation if call.origin else ''}"
        try:
            session = self._session_for(call)
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
        sessions = [session for session, _ in self._more.values()] + ([self._first] if self._first else [])
        for session in sessions:
            await session.watching.clear()

    def _state(self, state: ConnectorState, detail: str) -> None:
        self._listener.health(self.name, state, self._secrets.text(detail))

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


def _ignore(state: ConnectorState, detail: str) -> None:
    """The connector's health is its first session's."""

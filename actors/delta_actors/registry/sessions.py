"""One connector's sessions: the first, which lists what it has, and those of principals or conversations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import trio

from delta_actors.mcp import DeltaClient, McpError, NotSent
from delta_actors.registry import calls
from delta_actors.registry.following import Following
from delta_actors.registry.listener import Listener
from delta_actors.registry.listening import Listening
from delta_actors.registry.opening import Era, open_client
from delta_actors.registry.secrets import ConnectorSecrets
from delta_actors.registry.session import Session
from delta_actors.runtime.actor import Call
from delta_protocol.catalogue.model import ConnectorState
from delta_protocol.config import ConnectorConfig
from delta_protocol.errors import Overloaded
from delta_protocol.wire.message import Json

MAX_SESSIONS = 16
"""Sessions of one connector beside its first, for principals or conversations; an idle one makes room."""

_OnOpen = Callable[[DeltaClient, Session], Awaitable[None]]
_OnState = Callable[[ConnectorState, str], None]


class Sessions:
    """`first` lists the tools and, if it is shared, carries all calls; None until the connector was started."""

    def __init__(
        self,
        name: str,
        config: ConnectorConfig,
        listener: Listener,
        slots: trio.CapacityLimiter,
        nursery: trio.Nursery,
        state_dir: Path,
        secrets: ConnectorSecrets,
    ) -> None:
        self._name = name
        self._config = config
        self._listener = listener
        self._slots = slots
        self._nursery = nursery
        self._state_dir = state_dir
        self._secrets = secrets
        self.first: Session | None = None
        self._more: dict[str, tuple[Session, trio.CancelScope]] = {}
        self._following: Following | None = None

    def __iter__(self) -> Iterator[Session]:
        for session, _ in self._more.values():
            yield session
        if self.first is not None:
            yield self.first

    def start(self) -> None:
        """Start the first session, once."""
        if self.first is None and not self._config.fault:
            # Some servers list certain tools only to clients that can be asked: where some may be, they are listed.
            able = tuple(calls.DECLARED) if self._config.session == "conversation" else ()
            self.first = self._session(calls.declaration(able), "", "", self._introduced, self._state)
            self._nursery.start_soon(self.first.run)
        elif self._config.fault:
            self._state(ConnectorState.FAILED, self._config.fault)

    def shown(self) -> None:
        """A client was shown what the connector lists."""
        if self._following is not None:
            self._following.shown()

    def of(self, call: Call) -> Session:
        """Return the session that the call goes through. Raises `NotSent` where it cannot be opened, `Overloaded`."""
        self.start()
        key = self._key(call)
        if key is None:
            if self.first is None:
                raise NotSent(f"{self._name} cannot be started: {self._config.fault}")
            return self.first
        known = self._more.get(key)
        if known is None:
            self._make_room()
            capabilities = call.origin.capabilities if call.origin else ()
            each = self._config.session == "conversation" and call.origin is not None
            conversation = call.origin.conversation if each and call.origin is not None else ""
            session = self._session(
                calls.declaration(capabilities), call.principal.id, conversation, self._joined, _ignore
            )
            session.bound = self._config.session == "conversation"
            known = self._more[key] = (session, trio.CancelScope())
            self._nursery.start_soon(self._run_more, *known)
        return known[0]

    def _key(self, call: Call) -> str | None:
        """Whose session the call goes through; None is the first one. Principals are told apart everywhere."""
        if self._config.fault or self._config.session == "shared":
            return None
        if self._config.session == "principal":
            return call.principal.id
        if call.origin is None:
            return None
        key = f"{call.principal.id} {call.origin.conversation}"
        if self._listener.era(self._name) == "modern":
            return key
        # A legacy server is told once what its client can do; a modern client says it anew with every request.
        return f"{key} {' '.join(call.origin.capabilities)}"

    def _make_room(self) -> None:
        if len(self._more) < MAX_SESSIONS:
            return
        idle = [key for key, (session, _) in self._more.items() if not (session.open_calls or session.watching)]
        if not idle:
            raise Overloaded(f"{self._name} has {MAX_SESSIONS} sessions in use", retry_after=1.0)
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
            self._name,
            partial(self._remembering_era, capabilities),
            self._slots,
            self._config.start_timeout,
            on_open=opened,
            on_state=on_state,
        )
        session.on_updated = partial(self._listener.updated, self._name, principal, conversation)
        return session

    @asynccontextmanager
    async def _remembering_era(self, capabilities: Json) -> AsyncGenerator[DeltaClient]:
        """Open in the remembered era; where that fails, the next start finds it out anew."""
        era = self._listener.era(self._name) or "auto"
        opened = False
        try:
            place = (self._state_dir, self._secrets.add)
            async with open_client(self._name, self._config, cast("Era", era), capabilities, *place) as client:
                opened = True
                yield client
        except McpError:
            if not opened:
                self._listener.forget_era(self._name)
            raise

    async def _introduced(self, client: DeltaClient, session: Session) -> None:
        """List the tools, and follow from now on what the connector lists."""
        self._listener.opened(self._name, client)
        following = self._following = Following(self._name, client, self._listener, self._config.start_timeout)
        session.on_told = lambda method, _params: following.take(method)
        self._listener.listed(self._name, await client.list_tools())
        self._nursery.start_soon(session.attend, client, Listening(client, following.announced), following.run)

    async def _joined(self, client: DeltaClient, session: Session) -> None:
        """A session beside the first lists tools only to learn which arguments its headers repeat (spec 1.5)."""
        if client.era == "modern" and self._config.url is not None:
            await client.list_tools()
        self._nursery.start_soon(session.attend, client, Listening(client, ()))

    def _state(self, state: ConnectorState, detail: str) -> None:
        self._listener.health(self._name, state, self._secrets.text(detail))


def _ignore(state: ConnectorState, detail: str) -> None:
    """The connector's health is its first session's."""

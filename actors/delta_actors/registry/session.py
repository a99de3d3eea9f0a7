"""One session with a connector: started, watched, started again with backoff; calls wait for it while it starts."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress

import msgspec
import trio

from delta_actors.mcp import DeltaClient, McpError, NotSent
from delta_actors.mcp.client_calls import OnNotification
from delta_actors.registry.listening import Listening
from delta_actors.registry.watching import Watching
from delta_protocol.catalogue.model import ConnectorState
from delta_protocol.catalogue.visible import visible
from delta_protocol.mcp.levels import Level
from delta_protocol.wire.message import Json

log = logging.getLogger("delta.registry")

LOG_MESSAGE = "notifications/message"
RESOURCE_UPDATED = "notifications/resources/updated"

FIRST_BACKOFF = 0.2
MAX_BACKOFF = 30.0
STEADY = 10.0
"""Seconds a session must have lived for its end to count as a first failure again."""
GIVE_UP = 6
"""Failures in a row after which it is started only when somebody calls."""
PATIENCE = 1.0
"""A call waits for a start that is due within this many seconds; for a later one it is refused at once."""
RETRY_ASKED = 5.0
"""Seconds after a failed start before a call may have it tried again."""
DETAIL = 2_000

_BROKEN_IMPORT = re.compile(r"\b(?:ImportError|ModuleNotFoundError|AttributeError)\b[^\n]*\bmcp\b")
_OLD_SDK = (
    "It may be written for an older `mcp` package than it got: give it its own, as in `uvx --with 'mcp<2' PACKAGE`."
)
_DOWN = frozenset({ConnectorState.BACKOFF, ConnectorState.FAILED})

Opener = Callable[[], AbstractAsyncContextManager[DeltaClient]]


class Session:
    """`run` lives in a nursery; `client` gives the open client or says why there is none."""

    def __init__(
        self,
        name: str,
        opener: Opener,
        slots: trio.CapacityLimiter,
        start_timeout: float,
        *,
        on_open: Callable[[DeltaClient], Awaitable[None]],
        on_state: Callable[[ConnectorState, str], None],
    ) -> None:
        """`on_open` runs within the start's limit before any call does; `on_state` hears every change of state."""
        self._name = name
        self._opener = opener
        self._slots = slots
        self._start_timeout = start_timeout
        self._on_open = on_open
        self._on_state = on_state
        self._client: DeltaClient | None = None
        self._changed = trio.Event()
        self._asked = trio.Event()
        self._due = 0.0
        self._failed_at = 0.0
        self.state = ConnectorState.STARTING
        self.detail = ""
        self.starts = 0
        self.open_calls = 0
        self.on_told: OnNotification = lambda _method, _params: None
        """Takes what the server tells that belongs to no call."""
        self.on_updated: Callable[[str], None] = lambda _uri: None
        """Takes the watched resources that changed."""
        self.watching = Watching(name)
        self._attending = trio.CancelScope()
        self._attended = trio.Event()
        self.bound = False
        """Whether it belongs to one conversation."""
        self.log_level: Level | None = None
        """What a legacy server was told to log."""
        self._hearers: list[OnNotification] = []
        self.last_used = trio.current_time()
        self.junk_before = 0
        self.last_stderr = ""

    @contextmanager
    def heard_by(self, hearer: OnNotification) -> Generator[None, None, None]:
        """Let `hearer` have, for the block, the log messages that name no call.

        Where a session belongs to one conversation they go to its newest call. A modern server logs only for a request
        that wants it and while that runs: there they go to the only one that does. Else to nobody.
        """
        self._hearers.append(hearer)
        try:
            yield
        finally:
            self._hearers.remove(hearer)

    def _told(self, method: str, params: Json) -> None:
        if method == RESOURCE_UPDATED:
            with suppress(msgspec.DecodeError, RecursionError):
                uri = self.watching.watched_by(msgspec.json.decode(params, type=_Updated).uri)
                if uri is not None:
                    self.on_updated(uri)
        elif method != LOG_MESSAGE:
            self.on_told(method, params)
        elif self._hearers:
            modern = self._client is not None and self._client.era == "modern"
            if self.bound or (modern and len(self._hearers) == 1):
                self._hearers[-1](method, params)

    async def attend(
        self, client: DeltaClient, listening: Listening, follow: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Work beside the calls of one client, until its connection ends: hear its server, and `follow` its lists."""
        with trio.CancelScope() as self._attending:
            try:
                await self._attend(client, listening, follow)
            except Exception:  # the boundary to a connector: its fault must not stop the others
                log.exception("connector %s: what it tells is no longer heard", self._name)

    async def _attend(
        self, client: DeltaClient, listening: Listening, follow: Callable[[], Awaitable[None]] | None
    ) -> None:
        async with trio.open_nursery() as nursery:
            if client.era == "modern":
                nursery.start_soon(listening.run)
            if follow is not None:
                nursery.start_soon(follow)
            for uri in await self.watching.opened(client, listening):
                self.on_updated(uri)
            self._attended.set()
            await client.wait_closed()
            nursery.cancel_scope.cancel()

    async def attended(self) -> None:
        """Return once the open client is attended."""
        await self._attended.wait()

    @property
    def current(self) -> DeltaClient | None:
        """The open client, None while there is none."""
        return self._client

    @property
    def junk_lines(self) -> int:
        """Lines of all its processes that were no messages."""
        return self.junk_before + (self._client.junk_lines if self._client else 0)

    @property
    def stderr_tail(self) -> str:
        """The last of its stderr, of the process before where none runs."""
        return self._client.stderr_tail if self._client else self.last_stderr

    async def run(self) -> None:
        """Keep the session open until cancelled."""
        failures = 0
        while True:
            began = trio.current_time()
            reason = await self._once()
            self._failed_at = trio.current_time()
            lasted = self.state is ConnectorState.READY and self._failed_at - began >= STEADY
            failures = 1 if lasted else failures + 1
            delay = min(FIRST_BACKOFF * 2 ** (failures - 1), MAX_BACKOFF)
            if failures >= GIVE_UP:
                self._asked = trio.Event()
                self._set(ConnectorState.FAILED, reason)
                await self._asked.wait()
            else:
                self._due = self._failed_at + delay
                self._asked = trio.Event()
                self._set(ConnectorState.BACKOFF, reason)
                with trio.move_on_at(self._due):
                    await self._asked.wait()
            self._set(ConnectorState.STARTING, "")

    async def client(self) -> DeltaClient:
        """Return the open client, waiting while it starts. Raises `NotSent`, with the reason, where it does not run."""
        while self._client is None:
            now = trio.current_time()
            if self.state in _DOWN:
                later = self.state is ConnectorState.FAILED or self._due - now > PATIENCE
                if later and now - self._failed_at < RETRY_ASKED:
                    raise NotSent(f"{self._name} is not running: {self.detail}")
                self._asked.set()
            starting = self.state is ConnectorState.STARTING
            await self._changed.wait()
            if starting and self.state in _DOWN:
                raise NotSent(f"{self._name} is not running: {self.detail}")
        self.last_used = trio.current_time()
        return self._client

    async def wait_without(self, client: DeltaClient) -> None:
        """Return once `client`, whose connection has ended, is no longer the open one."""
        while self._client is client:
            await self._changed.wait()

    async def _once(self) -> str:
        """Open, serve to the end, and return why it ended."""
        self.starts += 1
        starting = _Slot(self._slots)
        try:
            await starting.take()
            async with self._opener() as client:
                client.on_notification = self._told
                self.log_level = None
                await self._introduce(client)
                starting.give_back()
                self._client = client
                self._set(ConnectorState.READY, "")
                try:
                    return _detail(await client.wait_closed(), client.stderr_tail)
                finally:
                    self._client = None
                    self._attending.cancel()
                    self._attended = trio.Event()
                    changed, self._changed = self._changed, trio.Event()
                    changed.set()
                    self.junk_before += client.junk_lines
                    self.last_stderr = client.stderr_tail
        except McpError as error:
            return _detail(error.message, "")
        except Exception as error:  # the boundary to a connector: its fault must not stop the others
            log.exception("connector %s", self._name)
            return f"{type(error).__name__}: {error}"
        finally:
            starting.give_back()

    async def _introduce(self, client: DeltaClient) -> None:
        with trio.move_on_after(self._start_timeout) as limit:
            await self._on_open(client)
        if limit.cancelled_caught:
            raise NotSent(f"no listing within {self._start_timeout:g} s")

    def _set(self, state: ConnectorState, detail: str) -> None:
        self.state, self.detail = state, detail
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        self._on_state(state, detail)


class _Updated(msgspec.Struct):
    uri: str


class _Slot:
    """One of the few starts at a time, given back once."""

    def __init__(self, slots: trio.CapacityLimiter) -> None:
        self._slots = slots
        self._held = False

    async def take(self) -> None:
        await self._slots.acquire_on_behalf_of(self)
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.release_on_behalf_of(self)


def _detail(reason: str, stderr: str) -> str:
    """The reason with the end of stderr, as people may see it."""
    tail = "\n".join(stderr.strip().splitlines()[-5:])
    text = f"{reason}\nIts stderr ends with:\n{tail}" if tail else reason
    hint = f"\n{_OLD_SDK}" if _BROKEN_IMPORT.search(text) else ""
    return visible(text)[0][-DETAIL:] + hint

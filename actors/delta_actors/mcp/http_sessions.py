"""Legacy sessions over HTTP, and conversations of modern clients.

A session id is sealed claims: whoever holds the key can rebuild the session from it, so a restart of the server loses
none. What a session holds beyond its claims lives only while something of it is in progress.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec
import trio

from delta_actors.mcp.execute import Running
from delta_actors.mcp.questions import Questions
from delta_actors.mcp.session_state import SessionState
from delta_protocol.jsonrpc import Id
from delta_protocol.mcp.incoming import LegacySession
from delta_protocol.mcp.sealing import Forged, seal, unseal
from delta_protocol.wire.message import Principal

_PURPOSE = "mcp-session"
_REBUILD_LIMIT = 7 * 86_400.0
_KEPT_ENDED = 10_000
_KEPT_CONVERSATIONS = 10_000
_KEPT_SESSIONS = 10_000


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    nonce: str
    issued: float
    principal: str
    session: LegacySession


class HttpSession:
    """A legacy session: what `initialize` settled, and what is in progress."""

    def __init__(self, nonce: str, principal: str, settled: LegacySession) -> None:
        self.nonce = nonce
        self.principal = principal
        self.settled = settled
        self.conversation = f"h_{nonce}"
        self.questions = Questions()
        self.state = SessionState()
        self.running: dict[Id, Running] = {}
        self.stream: trio.CancelScope | None = None
        self.last_used = 0.0

    @property
    def busy(self) -> bool:
        """Whether a request or a stream is open."""
        return bool(self.running) or self.stream is not None

    def end(self) -> None:
        """Close what is open."""
        self.questions.close()
        if self.stream is not None:
            self.stream.cancel()


class Sessions:
    """The table of legacy sessions. `idle` in seconds; `wall_clock` gives seconds since the epoch."""

    def __init__(self, key: bytes, idle: float, wall_clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._idle = idle
        self._wall_clock = wall_clock
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, settled: LegacySession, principal: Principal) -> str:
        """Begin a session and return its id: visible ASCII (spec 3.7)."""
        claims = _Claims(secrets.token_urlsafe(16), self._wall_clock(), principal.id, settled)
        self._admit(HttpSession(claims.nonce, principal.id, settled))
        return seal(self._key, _PURPOSE, msgspec.msgpack.encode(claims))

    def find(self, sealed: str, principal: Principal) -> HttpSession | None:
        """Return the session; None where it ended, was idle too long, belongs to somebody else or never was."""
        self._expire()
        try:
            claims = msgspec.msgpack.decode(unseal(self._key, _PURPOSE, sealed), type=_Claims)
        except (Forged, msgspec.DecodeError):
            return None
        if claims.principal != principal.id or claims.nonce in self._ended:
            return None
        session = self._sessions.get(claims.nonce)
        if session is None:
            if self._wall_clock() - claims.issued > _REBUILD_LIMIT:
                return None
            session = HttpSession(claims.nonce, claims.principal, claims.session)
        self._admit(session)
        return session

    def end(self, session: HttpSession) -> None:
        """End a session for good: its id is refused from now on, and what it asked for is cancelled."""
        self._sessions.pop(session.nonce, None)
        self._ended[session.nonce] = None
        while len(self._ended) > _KEPT_ENDED:
            self._ended.popitem(last=False)
        session.end()
        for running in session.running.values():
            running.withdraw()

    def _admit(self, session: HttpSession) -> None:
        session.last_used = trio.current_time()
        self._sessions[session.nonce] = session
        self._sessions.move_to_end(session.nonce)
        while len(self._sessions) > _KEPT_SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            oldest.end()

    def _expire(self) -> None:
        limit = trio.current_time() - self._idle
        for session in list(self._sessions.values()):
            if session.last_used > limit:
                return
            if session.busy:
                self._admit(session)
            else:
                self.end(session)


class Conversations:
    """Names the conversations of modern clients: principal and client name, until `idle` seconds without a request.

    A client's first conversation has the same name in every incarnation of the server, so that a program repeated after
    a restart is recognised as the same (plan-apply-undo 5.15).
    """

    def __init__(self, idle: float = 3600.0) -> None:
        self._idle = idle
        self._names: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    def name(self, principal: Principal, client: str) -> str:
        """Return the conversation that a request of this client belongs to now."""
        key, now = (principal.id, client), trio.current_time()
        known = self._names.pop(key, None)
        name, last = (_first(*key), now) if known is None else known
        if now - last > self._idle:
            name = f"m_{secrets.token_hex(8)}"
        self._names[key] = (name, now)
        while len(self._names) > _KEPT_CONVERSATIONS:
            self._names.popitem(last=False)
        return name


def _first(principal: str, client: str) -> str:
    return "m_" + hashlib.sha256(f"{principal}\0{client}".encode()).hexdigest()[:16]

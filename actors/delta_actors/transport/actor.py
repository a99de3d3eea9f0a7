"""Serves one `DeltaServer`, whose tools are the gateway's, on the sockets that the actor was given."""

from __future__ import annotations

import importlib.metadata
import ipaddress
import logging
import os
import socket
from functools import partial
from typing import Any, ClassVar

import trio

from delta_actors.gateway import (
    Catalogues,
    Gateway,
    Offered,
    PassedCompletions,
    PassedPrompts,
    PassedResources,
    Watches,
)
from delta_actors.mcp import DeltaServer, ServerSettings, Sources
from delta_actors.mcp.stdio import PipeStream
from delta_actors.runtime.actor import Actor, Context, Handlers
from delta_actors.runtime.processes import peer_of, start_time
from delta_actors.transport.key import load_key
from delta_actors.transport.tokens import access_of
from delta_protocol.answers.definitions import INSTRUCTIONS
from delta_protocol.codecs.negotiate import Format
from delta_protocol.config import StackConfig
from delta_protocol.errors import DeltaError, Refused
from delta_protocol.wire.message import Principal, Role
from delta_protocol.wire.registry import ResourceUpdated

log = logging.getLogger(__name__)

STDIO = Principal("stdio", "stdio")
"""Who comes over a relay: the user that runs the stack."""

_MOST_RELAYS = 256
_RETRY = 0.2
_LAST_ANSWERS = 0.2
"""Seconds in which the answers of calls that have just ended are written."""
_OFFERS_KNOWN = 1.0
"""Seconds that the first clients wait for the registry to tell what connectors offer."""
_DISTRIBUTION = "delta-supervisor"


class TransportActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.TRANSPORT

    def __init__(self) -> None:
        self._relays = 0

    async def start(self, context: Context) -> tuple[str, ...]:
        """Take the sockets over. Raises `Refused` for an address beyond loopback without required tokens."""
        self._context = context
        http = context.sockets.get("http")
        addresses = () if http is None else (_address(http, context.config),)
        limits = context.config.limits
        self._catalogues = Catalogues(context.ref(Role.REGISTRY))
        self._offered = Offered(context.ref(Role.REGISTRY), lambda kind: self._server.changed(kind), self._updated)
        self._gateway = Gateway(
            registry=context.ref(Role.REGISTRY),
            sandbox=context.ref(Role.SANDBOX),
            journal=context.ref(Role.JOURNAL),
            results=context.ref(Role.RESULTS),
            catalogues=self._catalogues,
            offered=self._offered,
            nursery=context.nursery,
            limits=limits,
            answered=self._answered,
        )
        self._watches = Watches(context.ref(Role.REGISTRY), self._offered)
        # One key for session ids and for the state of questions (each sealed for its purpose): both outlive a restart.
        self._key = load_key(context.state_dir / "session.key")
        self._server = DeltaServer(
            "delta",
            importlib.metadata.version(_DISTRIBUTION),
            title="Delta",
            instructions=INSTRUCTIONS,
            sources=Sources(
                tools=self._gateway,
                resources=PassedResources(self._offered, self._gateway.relay, self._watches, self._answered),
                prompts=PassedPrompts(self._offered, self._gateway.relay, self._answered),
                completions=PassedCompletions(self._offered, self._gateway.relay),
                logging=lambda: self._offered.has("logging"),
            ),
            settings=ServerSettings(deadline=limits.request_deadline, state_key=self._key),
        )
        self._access = access_of(context.config.auth, context.ref(Role.AUTH))
        return addresses

    def handlers(self) -> Handlers:
        """Nobody asks transport."""
        return Handlers()

    async def run(self) -> None:
        """Serve clients; on stop, let calls in progress end within the actor's `stop_timeout`."""
        shutdown = trio.Event()
        async with trio.open_nursery() as nursery:
            lingering = trio.CancelScope(shield=True)
            nursery.start_soon(self._serve, lingering, shutdown)
            nursery.start_soon(self._catalogues.watch)
            nursery.start_soon(self._offered.watch)
            nursery.start_soon(self._watches.run, self._server.subscribers)
            nursery.start_soon(self._tell_changes)
            try:
                await trio.sleep_forever()
            finally:
                lingering.deadline = trio.current_time() + self._grace
                shutdown.set()

    def statistics(self) -> dict[str, Any]:
        """Who is connected, and what the gateway remembers."""
        return {"relays": self._relays, "watches": len(self._watches), **self._gateway.statistics()}

    @property
    def _grace(self) -> float:
        return max(0.5, self._context.config.actor(self.role).stop_timeout - 1.0)

    async def _serve(self, lingering: trio.CancelScope, shutdown: trio.Event) -> None:
        """Serve until `shutdown`, then until no call is in progress, or until `lingering` ends."""
        with lingering:
            # What a client is told at its handshake holds for its session, so it is told what there is.
            await self._offered.wait_known(_OFFERS_KNOWN)
            async with trio.open_nursery() as nursery:
                if http := self._context.sockets.get("http"):
                    nursery.start_soon(self._serve_http, http, shutdown)
                if relay := self._context.sockets.get("mcp"):
                    nursery.start_soon(self._serve_relays, relay)
                await shutdown.wait()
                await self._gateway.drain()
                await trio.sleep(_LAST_ANSWERS)
                nursery.cancel_scope.cancel()

    async def _serve_http(self, listener: socket.socket, shutdown: trio.Event) -> None:
        # hypercorn is imported for the first client that needs it: relays are served at once, and a stack that nobody
        # calls over HTTP never pays for it.
        await trio.lowlevel.wait_readable(listener)
        from delta_actors.mcp.http_serve import serve_http
        from delta_actors.mcp.http_settings import HttpSettings

        config = self._context.config.http
        settings = HttpSettings(
            self._key,
            path=config.path,
            hosts=config.hosts,
            origins=config.origins,
            local_origins=config.local_origins,
            max_body=config.max_body,
            max_requests=config.max_requests,
            rate_limit=config.rate_limit,
            rate_window=config.rate_window,
            proxies=config.proxies,
            proxy_header=config.proxy_header,
            formats=tuple(Format(each) for each in config.formats),
            gzip=config.gzip,
            takes_gzip=config.takes_gzip,
            session_idle=config.session_idle,
            patience=config.patience,
            keep_alive=config.keep_alive,
            connections=config.connections,
            graceful=self._grace,
        )
        await serve_http(self._server, [listener], settings, shutdown, self._access)

    async def _serve_relays(self, listener: socket.socket) -> None:
        own = listener.dup()
        own.setblocking(False)
        await trio.serve_listeners(self._relay, [trio.SocketListener(trio.socket.from_stdlib_socket(own))])

    async def _relay(self, stream: trio.SocketStream) -> None:
        async with stream:
            process, user = peer_of(stream.socket)
            if self._relays >= _MOST_RELAYS or user != os.geteuid():
                return
            self._relays += 1
            try:
                async with PipeStream(os.dup(stream.socket.fileno())) as lines:
                    await self._server.serve_lines(lines, principal=STDIO, conversation=_conversation(process))
            except Exception:
                log.exception("a relayed session failed")
            finally:
                self._relays -= 1

    async def _tell_changes(self) -> None:
        while True:
            try:
                await self._gateway.wait_changed()
                self._server.tools_changed()
            except DeltaError:
                await trio.sleep(_RETRY)

    def _updated(self, news: ResourceUpdated | None) -> None:
        if news is None:
            self._watches.forgotten()
        else:
            self._watches.told(news, self._server.resource_updated)

    def _answered(self) -> None:
        self._context.nursery.start_soon(partial(self._catalogues.start_connectors))


def _conversation(process: int) -> str | None:
    """Return the name of a relay's conversation, which is its process: the same when it comes again after a restart.

    None, for a name of its own, where the process cannot be seen (it is gone, or in a namespace apart).
    """
    started = start_time(process)
    return f"s_{process}_{started}" if started else None


def _address(listener: socket.socket, config: StackConfig) -> str:
    """Return the URL of the endpoint. Raises `Refused` where anybody could come in (acceptance 78)."""
    host, port = listener.getsockname()[:2]
    if not ipaddress.ip_address(host).is_loopback and not config.auth.asks:
        raise Refused(
            f"[http] host {host} can be reached from other machines and no token is required: "
            'set [auth] require_token = true or mode = "oauth", or host = 127.0.0.1',
            setting="auth.require_token",
        )
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{config.http.path}"

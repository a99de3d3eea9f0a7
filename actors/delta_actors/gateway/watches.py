"""Which client watches which resource: what the server's subscribers want, and what the registry was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import trio

from delta_actors.gateway.offered import Offered
from delta_actors.mcp import RpcError, UnknownResource, Watcher
from delta_actors.runtime.actor import Ref
from delta_actors.runtime.current import speaking_for
from delta_protocol.catalogue.offers import Target
from delta_protocol.errors import ConnectorFailed, DeltaError, Refused
from delta_protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from delta_protocol.wire.message import Origin
from delta_protocol.wire.registry import ResourceUpdated, UnwatchResource, WatchResource

PATIENCE = 15.0
"""Seconds for one subscription."""
RETRY = 2.0
"""Seconds after which it is asked again for what its connector could not give then."""
_AT_ONCE = 8

Tell = Callable[[str, Callable[[Watcher], bool]], None]
"""Tells those watchers of a URI whom it concerns."""


class Subscribers(Protocol):
    """What the server knows of its clients' subscriptions."""

    def watched(self) -> set[tuple[str, Watcher]]:
        """The URIs that are watched now, and by whom."""
        ...

    async def wait_touched(self, seen: int) -> int:
        """Return, once that may be different than at `seen`, what to call it with the next time."""
        ...


class Watches:
    """Asks the registry for what is watched, and gives up what is watched no more. `run` runs beside the gateway."""

    def __init__(self, registry: Ref, offered: Offered) -> None:
        self._registry = registry
        self._offered = offered
        self._asked: dict[tuple[str, Watcher], Target] = {}
        self._reset = trio.Event()
        self._seen = 0
        self._epoch = 0
        self._failed = False

    def __len__(self) -> int:
        return len(self._asked)

    async def begin(self, uri: str, watcher: Watcher) -> None:
        """Return once the resource's changes will be told. Raises `UnknownResource`, `RpcError`."""
        if (uri, watcher) in self._asked:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._ask(uri, watcher)
        except DeltaError as error:
            code = INVALID_PARAMS if isinstance(error, Refused) else INTERNAL_ERROR
            raise RpcError(code, error.message) from None

    async def _ask(self, uri: str, watcher: Watcher) -> None:
        target = self._offered.shown.resource(uri)
        if target is None:
            raise UnknownResource(uri)
        epoch = self._epoch
        try:
            with trio.fail_after(PATIENCE), _speaking(watcher):
                await self._registry.ask(WatchResource(target.connector, target.name))
        except trio.TooSlowError:
            raise ConnectorFailed(f"{target.connector} did not subscribe in time") from None
        if epoch == self._epoch:
            self._asked[uri, watcher] = target
        else:
            # The registry began anew meanwhile: it may have forgotten this one.
            self._reset.set()

    def forgotten(self) -> None:
        """The registry knows of no subscription any more: ask for all of them again."""
        self._epoch += 1
        self._asked.clear()
        self._reset.set()

    def told(self, news: ResourceUpdated, tell: Tell) -> None:
        """Pass on that a resource changed, under the URIs that clients know it by."""
        target = Target(news.connector, news.uri)

        def concerns(watcher: Watcher) -> bool:
            return (not news.principal or watcher.principal.id == news.principal) and (
                not news.conversation or watcher.conversation == news.conversation
            )

        for uri in {uri for (uri, _), asked in self._asked.items() if asked == target}:
            tell(uri, concerns)

    async def run(self, subscribers: Subscribers) -> None:
        """Follow the subscribers for ever."""
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_reset, nursery.cancel_scope)
                nursery.start_soon(self._wait_touched, subscribers, nursery.cancel_scope)
                if self._failed:
                    nursery.cancel_scope.deadline = trio.current_time() + RETRY
            await self._settle(subscribers.watched())

    async def _settle(self, watched: set[tuple[str, Watcher]]) -> None:
        self._failed = False
        limit = trio.CapacityLimiter(_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for each in [one for one in self._asked if one not in watched]:
                nursery.start_soon(self._end, *each, limit)
            for each in [one for one in watched if one not in self._asked]:
                nursery.start_soon(self._again, *each, limit)

    async def _again(self, uri: str, watcher: Watcher, limit: trio.CapacityLimiter) -> None:
        async with limit:
            try:
                await self._ask(uri, watcher)
            except (RpcError, Refused):
                # Its client was told so, or will hear nothing of a resource that is there no more.
                return
            except DeltaError:
                self._failed = True

    async def _end(self, uri: str, watcher: Watcher, limit: trio.CapacityLimiter) -> None:
        target = self._asked.pop((uri, watcher), None)
        if target is None:
            return
        async with limit:
            with trio.move_on_after(PATIENCE), _speaking(watcher):
                try:
                    await self._registry.ask(UnwatchResource(target.connector, target.name))
                except DeltaError:
                    return

    async def _wait_reset(self, scope: trio.CancelScope) -> None:
        await self._reset.wait()
        self._reset = trio.Event()
        scope.cancel()

    async def _wait_touched(self, subscribers: Subscribers, scope: trio.CancelScope) -> None:
        self._seen = await subscribers.wait_touched(self._seen)
        scope.cancel()


def _speaking(watcher: Watcher) -> AbstractContextManager[None]:
    request = f"{watcher.conversation}:watch"
    origin = Origin(watcher.conversation, request, watcher.client, capabilities=watcher.capabilities)
    return speaking_for(watcher.principal, origin)

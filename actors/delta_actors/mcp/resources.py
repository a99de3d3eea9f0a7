"""The resources feature: lists, templates, reading, and legacy subscriptions, over a `ResourceSource` (spec 1.11, 3.3).

Modern clients subscribe by `subscriptions/listen`, which is served where the connection is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec
import trio

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.methods import Method, list_page
from delta_protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Json
from delta_protocol.mcp.errors import RESOURCE_NOT_FOUND_LEGACY, RpcError
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.offers import ResourceDefinition, ResourceTemplate, UnknownResource, required_text
from delta_protocol.mcp.types import ResourceContents
from delta_protocol.mcp.versions import Era
from delta_protocol.wire.message import Principal

MAX_SUBSCRIPTIONS = 1000
"""URIs that one session or stream may subscribe to."""


class Watch(Protocol):
    """Knows who watches what."""

    async def begin(self, uri: str, watcher: Watcher) -> None:
        """Somebody subscribed; see `WatchableResources.watch_resource`."""
        ...

    def touched(self) -> None:
        """Who watches what is different now."""
        ...


class ResourceSource(Protocol):
    """Where a server's resources come from. Every method runs in the request's own scope."""

    def offers_resources(self) -> bool:
        """Whether there are any now; else the feature is not advertised."""
        ...

    async def list_resources(self, context: RequestContext) -> Sequence[ResourceDefinition | Json]:
        """Return the resources in a stable order; bytes are a resource's JSON text."""
        ...

    async def list_templates(self, context: RequestContext) -> Sequence[ResourceTemplate | Json]:
        """Return the templates in a stable order; bytes are a template's JSON text."""
        ...

    async def read_resource(self, uri: str, context: RequestContext) -> Sequence[ResourceContents] | Json:
        """Return the contents; bytes are a whole ReadResourceResult's JSON text. Raises `UnknownResource`."""
        ...


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who subscribes to resources: a client in a conversation, with what it declared."""

    principal: Principal
    conversation: str
    client: str = ""
    capabilities: tuple[str, ...] = ()


@runtime_checkable
class WatchableResources(Protocol):
    """A `ResourceSource` that must be told which of its resources somebody watches. Without it, all of them count as
    watched.
    """

    def can_watch(self) -> bool:
        """Whether changes of any resource can be told now; else that is not advertised."""
        ...

    async def watch_resource(self, uri: str, watcher: Watcher) -> None:
        """Return once changes will be told. Raises `UnknownResource`, `RpcError` where they cannot be.

        When nobody watches any more is for the source to see, from `Subscribers.watched`.
        """
        ...


class Resources:
    """The feature. `size` is the length of a page; `watch` takes who subscribes to what, and what was given up."""

    def __init__(self, source: ResourceSource, size: int, watch: Watch) -> None:
        self.source = source
        self._watch = watch
        self._size = size
        self.methods: Mapping[str, Method] = {
            "resources/list": Method(self._list),
            "resources/templates/list": Method(self._list_templates),
            "resources/read": Method(self._read, asks=True),
            "resources/subscribe": Method(self._subscribe, eras=("legacy",)),
            "resources/unsubscribe": Method(self._unsubscribe, eras=("legacy",)),
        }

    def capabilities(self, era: Era) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Return the resources capability."""
        if not self.source.offers_resources():
            return {}
        return {"resources": {**({"subscribe": True} if self._can_watch() else {}), "listChanged": True}}

    def _can_watch(self) -> bool:
        return self.source.can_watch() if isinstance(self.source, WatchableResources) else True

    async def _list(self, call: IncomingCall, context: RequestContext) -> Json:
        return list_page(call, "resources", _texts(await self.source.list_resources(context)), self._size)

    async def _list_templates(self, call: IncomingCall, context: RequestContext) -> Json:
        return list_page(call, "resourceTemplates", _texts(await self.source.list_templates(context)), self._size)

    async def _read(self, call: IncomingCall, context: RequestContext) -> Json:
        uri = required_text(call, "uri")
        try:
            contents = await self.source.read_resource(uri, context)
        except UnknownResource as error:
            raise _in_era(call, error) from None
        return contents if isinstance(contents, bytes) else msgspec.json.encode({"contents": contents})

    async def _subscribe(self, call: IncomingCall, context: RequestContext) -> Json:
        if not self._can_watch():
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method}")
        uri, subscribed = required_text(call, "uri"), context.session.uris
        if uri not in subscribed and len(subscribed) >= MAX_SUBSCRIPTIONS:
            raise RpcError(INVALID_PARAMS, f"a session may subscribe to {MAX_SUBSCRIPTIONS} resources")
        new = uri not in subscribed
        subscribed.add(uri)
        watcher = Watcher(context.principal, context.conversation, context.client_name, context.client_capabilities)
        try:
            await self._watch.begin(uri, watcher)
        except RpcError as error:
            if new:
                subscribed.discard(uri)
            raise _in_era(call, error) from None
        finally:
            self._watch.touched()
        return b"{}"

    async def _unsubscribe(self, call: IncomingCall, context: RequestContext) -> Json:
        context.session.uris.discard(required_text(call, "uri"))
        self._watch.touched()
        await trio.lowlevel.checkpoint()
        return b"{}"


def _in_era(call: IncomingCall, error: RpcError) -> RpcError:
    """Return the error as the call's era has it: an unknown resource has a code of its own in the legacy one."""
    if call.era == "legacy" and isinstance(error, UnknownResource):
        return RpcError(RESOURCE_NOT_FOUND_LEGACY, error.message, error.data)
    return error


def _texts(items: Sequence[ResourceDefinition | ResourceTemplate | Json]) -> list[Json]:
    return [item if isinstance(item, bytes) else msgspec.json.encode(item) for item in items]

"""The resources feature: lists, templates, reading, and legacy subscriptions, over a `ResourceSource` (spec 1.11, 3.3).

Modern clients subscribe by `subscriptions/listen`, which is served where the connection is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import trio

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.methods import Method, list_page
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RESOURCE_NOT_FOUND_LEGACY, RpcError
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.offers import ResourceDefinition, ResourceTemplate, UnknownResource, required_text
from delta_protocol.mcp.types import ResourceContents
from delta_protocol.mcp.versions import Era

MAX_SUBSCRIPTIONS = 1000
"""URIs that one session or stream may subscribe to."""


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


class Resources:
    """The feature. `size` is the length of a page."""

    def __init__(self, source: ResourceSource, size: int) -> None:
        self.source = source
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
        return {"resources": {"subscribe": True, "listChanged": True}} if self.source.offers_resources() else {}

    async def _list(self, call: IncomingCall, context: RequestContext) -> Json:
        return list_page(call, "resources", _texts(await self.source.list_resources(context)), self._size)

    async def _list_templates(self, call: IncomingCall, context: RequestContext) -> Json:
        return list_page(call, "resourceTemplates", _texts(await self.source.list_templates(context)), self._size)

    async def _read(self, call: IncomingCall, context: RequestContext) -> Json:
        uri = required_text(call, "uri")
        try:
            contents = await self.source.read_resource(uri, context)
        except UnknownResource as error:
            if call.era == "modern":
                raise
            raise RpcError(RESOURCE_NOT_FOUND_LEGACY, error.message, error.data) from None
        return contents if isinstance(contents, bytes) else msgspec.json.encode({"contents": contents})

    async def _subscribe(self, call: IncomingCall, context: RequestContext) -> Json:
        uri, subscribed = required_text(call, "uri"), context.session.uris
        if uri not in subscribed and len(subscribed) >= MAX_SUBSCRIPTIONS:
            raise RpcError(INVALID_PARAMS, f"a session may subscribe to {MAX_SUBSCRIPTIONS} resources")
        subscribed.add(uri)
        await trio.lowlevel.checkpoint()
        return b"{}"

    async def _unsubscribe(self, call: IncomingCall, context: RequestContext) -> Json:
        context.session.uris.discard(required_text(call, "uri"))
        await trio.lowlevel.checkpoint()
        return b"{}"


def _texts(items: Sequence[ResourceDefinition | ResourceTemplate | Json]) -> list[Json]:
    return [item if isinstance(item, bytes) else msgspec.json.encode(item) for item in items]

"""What a server's features are made of: methods by name, each for one era or both, and what they add to capabilities.

A feature is one group of the protocol's methods (tools, resources, prompts, completion, logging). What it does not
offer now is not advertised, and its methods do not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from delta_actors.mcp.context import RequestContext
from delta_protocol.jsonrpc import METHOD_NOT_FOUND, Json
from delta_protocol.mcp import outgoing
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.outgoing import ServerIdentity
from delta_protocol.mcp.pages import page
from delta_protocol.mcp.versions import Era

BOTH: tuple[Era, ...] = ("legacy", "modern")


@dataclass(frozen=True, slots=True)
class Method:
    """`serve` returns the result's JSON text, not yet shaped. `asks`: it may end with questions to the client.

    `scopes`: which scopes a call needs that comes with a token.
    """

    serve: Callable[[IncomingCall, RequestContext], Awaitable[Json]]
    eras: tuple[Era, ...] = BOTH
    asks: bool = False
    scopes: Callable[[IncomingCall], Sequence[str]] | None = None


class Feature(Protocol):
    """One group of methods."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods by name; always the same."""
        ...

    def capabilities(self, era: Era) -> dict[str, Any]:
        """Return what it adds to ServerCapabilities now, as that era writes it; empty while it offers nothing."""
        ...


class Methods:
    """The methods of one server."""

    def __init__(self, identity: ServerIdentity, features: Sequence[Feature]) -> None:
        self._identity = identity
        self._features = features
        self._feature_of = {name: feature for feature in features for name in feature.methods}
        self._methods: dict[str, Method] = {
            "ping": Method(_ping, eras=("legacy",)),
            "server/discover": Method(self._discover, eras=("modern",)),
        }
        for feature in features:
            self._methods.update(feature.methods)

    def find(self, call: IncomingCall) -> Method:
        """Return the method of a call. Raises `RpcError` -32601 where this server has none in the call's era."""
        method = self._methods.get(call.method)
        if method is not None and call.era in method.eras:
            feature = self._feature_of.get(call.method)
            if feature is None or feature.capabilities(call.era):
                return method
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method}")

    def scopes(self, call: IncomingCall) -> Sequence[str]:
        """Return the scopes that a call needs, none for an unknown method."""
        method = self._methods.get(call.method)
        return () if method is None or method.scopes is None else method.scopes(call)

    def capabilities(self, era: Era) -> dict[str, Any]:
        """Return the ServerCapabilities of what works now; what several features put under one name is joined."""
        merged: dict[str, Any] = {}
        for feature in self._features:
            for name, settings in feature.capabilities(era).items():
                merged[name] = merged.get(name, {}) | settings
        return merged

    async def _discover(self, _call: IncomingCall, _context: RequestContext) -> Json:
        await trio.lowlevel.checkpoint()
        return outgoing.discover_result(self._identity, self.capabilities("modern"))


async def _ping(_call: IncomingCall, _context: RequestContext) -> Json:
    await trio.lowlevel.checkpoint()
    return b"{}"


def list_page(call: IncomingCall, member: str, items: Sequence[Json], size: int) -> Json:
    """Return the page of `items` that the call's cursor names, not yet shaped. Raises `RpcError` -32602."""
    shown, following = page(call.method, items, call.text("cursor"), size)
    return outgoing.list_result(member, shown, following)

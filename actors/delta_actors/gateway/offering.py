"""Resources, prompts and completions of connectors, as the sources of the transport's server (three-tools 14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from delta_actors.gateway.offered import Offered
from delta_actors.gateway.relaying import Relay
from delta_actors.gateway.watches import Watches
from delta_actors.mcp import (
    Completion,
    PromptResult,
    RequestContext,
    ResourceContents,
    RpcError,
    UnknownPrompt,
    UnknownResource,
    Watcher,
)
from delta_protocol.catalogue.offers import Target
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.jsonrpc import INVALID_PARAMS
from delta_protocol.mcp.errors import RESOURCE_NOT_FOUND_LEGACY
from delta_protocol.mcp.offers import CompletionRequest, PromptDefinition, ResourceDefinition, ResourceTemplate
from delta_protocol.wire.message import Json
from delta_protocol.wire.registry import PassRequest


class PassedResources:
    """A `ResourceSource` whose resources can be watched.

    Lists are answered from what is known; no connector is asked. `answered` is called then.
    """

    def __init__(self, offered: Offered, relay: Relay, watches: Watches, answered: Callable[[], None]) -> None:
        self._offered = offered
        self._relay = relay
        self._watches = watches
        self._answered = answered

    def can_watch(self) -> bool:
        """Whether a connector tells changes of its resources."""
        return self._offered.has("resources.subscribe")

    async def watch_resource(self, uri: str, watcher: Watcher) -> None:
        """Subscribe at the connector. Raises `UnknownResource`, `RpcError` where it does not tell changes."""
        await self._watches.begin(uri, watcher)

    def offers_resources(self) -> bool:
        """Whether a connector has resources."""
        return self._offered.has("resources")

    async def list_resources(self, context: RequestContext) -> Sequence[ResourceDefinition | Json]:  # noqa: ARG002
        """Return the resources of all connectors."""
        self._answered()
        await self._offered.looked()
        return self._offered.shown.resources

    async def list_templates(self, context: RequestContext) -> Sequence[ResourceTemplate | Json]:  # noqa: ARG002
        """Return the templates of all connectors."""
        self._answered()
        await self._offered.looked()
        return self._offered.shown.templates

    async def read_resource(self, uri: str, context: RequestContext) -> Sequence[ResourceContents] | Json:
        """Read at the connector that has it. Raises `UnknownResource`, and what `Relay.request` raises."""
        target = self._offered.shown.resource(uri)
        if target is None:
            raise UnknownResource(uri)
        make = _request(target, "resources/read", {"uri": target.name})
        try:
            result = await self._relay.request(context, f"{target.connector}: {target.name}", make)
        except RpcError as error:
            if _not_found(error):
                raise UnknownResource(uri) from None
            raise
        if uri != target.name and not self._offered.shown.renames(target.connector):
            return _qualified(result, target.name, uri)
        return result


class PassedPrompts:
    """A `PromptSource`; see `PassedResources`."""

    def __init__(self, offered: Offered, relay: Relay, answered: Callable[[], None]) -> None:
        self._offered = offered
        self._relay = relay
        self._answered = answered

    def offers_prompts(self) -> bool:
        """Whether a connector has prompts."""
        return self._offered.has("prompts")

    async def list_prompts(self, context: RequestContext) -> Sequence[PromptDefinition | Json]:  # noqa: ARG002
        """Return the prompts of all connectors."""
        self._answered()
        await self._offered.looked()
        return self._offered.shown.prompts

    async def get_prompt(self, name: str, arguments: Mapping[str, str], context: RequestContext) -> PromptResult | Json:
        """Return what the connector makes of it. Raises `UnknownPrompt`, and what `Relay.request` raises."""
        target = self._offered.shown.prompt(name)
        if target is None:
            raise UnknownPrompt(name)
        params: dict[str, Any] = {"name": target.name}
        if arguments:
            params["arguments"] = dict(arguments)
        make = _request(target, "prompts/get", params)
        return await self._relay.request(context, f"{target.connector}: {target.name}", make)


class PassedCompletions:
    """A `CompletionSource`: names are those that clients see, and lead back to the connector's own."""

    def __init__(self, offered: Offered, relay: Relay) -> None:
        self._offered = offered
        self._relay = relay

    def offers_completions(self) -> bool:
        """Whether a connector completes."""
        return self._offered.has("completions")

    async def complete(self, request: CompletionRequest, context: RequestContext) -> Completion | Json:
        """Return the connector's suggestions, none where it has no completion.

        Raises `UnknownPrompt`, `UnknownResource`, and what `Relay.request` raises.
        """
        name = request.reference.name
        if request.reference.kind == "prompt":
            target, reference = self._offered.shown.prompt(name), {"type": "ref/prompt"}
        else:
            target, reference = self._offered.shown.template(name), {"type": "ref/resource"}
        if target is None:
            raise UnknownPrompt(name) if request.reference.kind == "prompt" else UnknownResource(name)
        offer = next(each for each in self._offered.shown.offers.offers if each.connector == target.connector)
        if "completions" not in offer.has:
            return Completion(())
        reference["name" if request.reference.kind == "prompt" else "uri"] = target.name
        params: dict[str, Any] = {"ref": reference, "argument": {"name": request.argument, "value": request.value}}
        if request.known:
            params["context"] = {"arguments": dict(request.known)}
        make = _request(target, "completion/complete", params)
        return await self._relay.request(context, f"{target.connector}: completion", make)


def _qualified(result: Json, own: str, asked: str) -> Json:
    """Return the result with the URI that was asked for in place of the connector's own."""
    body: Any = exact_json.decode(result)
    contents = body.get("contents") if is_object(body) else None
    for item in contents if is_array(contents) else ():
        if is_object(item) and item.get("uri") == own:
            item["uri"] = asked
    return exact_json.encode(body)


def _request(target: Target, method: str, params: dict[str, Any]) -> Callable[[Json | None, str | None], PassRequest]:
    text = msgspec.json.encode(params)

    def make(responses: Json | None, state: str | None) -> PassRequest:
        return PassRequest(target.connector, method, text, responses, state)

    return make


def _not_found(error: RpcError) -> bool:
    """Whether a connector says that there is no such resource: each era has a code of its own (spec 1.1)."""
    if error.code == RESOURCE_NOT_FOUND_LEGACY:
        return True
    return error.code == INVALID_PARAMS and ("not found" in error.message.lower() or b'"uri"' in (error.data or b""))

"""Plain functions as resources and resource templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.signatures import Signature, each
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.offers import ResourceDefinition, ResourceTemplate, UnknownResource
from delta_protocol.mcp.types import ResourceContents
from delta_protocol.mcp.uri_templates import UriTemplate


@dataclass(frozen=True, slots=True)
class FunctionResource:
    """One resource; the function takes no arguments."""

    definition: ResourceDefinition
    signature: Signature


@dataclass(frozen=True, slots=True)
class FunctionTemplate:
    """Resources of one template; the function takes its variables."""

    definition: ResourceTemplate
    template: UriTemplate
    signature: Signature


class FunctionResources:
    """The resources a server was given by its `resource` decorator, in the order of definition.

    A function returns text, bytes, anything that becomes JSON, or `ResourceContents`, one or a list of them.
    """

    def __init__(self) -> None:
        self._resources: dict[str, FunctionResource] = {}
        self._templates: dict[str, FunctionTemplate] = {}

    def add(self, resource: FunctionResource | FunctionTemplate) -> None:
        """Add a resource or a template.

        Raises `ValueError` for a URI that is taken, `TypeError` where the function's parameters are not the template's
        variables.
        """
        template = resource.template if isinstance(resource, FunctionTemplate) else None
        uri = resource.definition.uri if isinstance(resource, FunctionResource) else resource.template.template
        if uri in self._resources or uri in self._templates:
            raise ValueError(f"there is already a resource {uri!r}")
        variables: set[str] = set() if template is None else set(template.names)
        if set(resource.signature.names) != variables:
            raise TypeError(f"{uri}: the function must take {sorted(variables) or 'no arguments'}")
        if isinstance(resource, FunctionResource):
            self._resources[uri] = resource
        else:
            self._templates[uri] = resource

    def remove(self, uri: str) -> None:
        """Remove a resource or a template. Raises `KeyError` where there is none."""
        if uri in self._templates:
            del self._templates[uri]
        else:
            del self._resources[uri]

    def has(self, uri: str) -> bool:
        """Whether there is such a resource or template, or a template that `uri` fits."""
        known = uri in self._resources or uri in self._templates
        return known or any(each.template.match(uri) is not None for each in self._templates.values())

    def offers_resources(self) -> bool:
        """Whether any function was given."""
        return bool(self._resources or self._templates)

    async def list_resources(self, context: RequestContext) -> Sequence[ResourceDefinition | Json]:  # noqa: ARG002
        """Return the definitions of the resources."""
        return [resource.definition for resource in self._resources.values()]

    async def list_templates(self, context: RequestContext) -> Sequence[ResourceTemplate | Json]:  # noqa: ARG002
        """Return the definitions of the templates."""
        return [template.definition for template in self._templates.values()]

    async def read_resource(self, uri: str, context: RequestContext) -> Sequence[ResourceContents] | Json:
        """Run the function of that URI, or of the first template that it fits. Raises `UnknownResource`."""
        resource = self._resources.get(uri)
        if resource is not None:
            returned = await resource.signature.call(resource.signature.from_strings({}), context)
            return _contents(uri, resource.definition.mime_type, returned)
        for template in self._templates.values():
            found = template.template.match(uri)
            if found is not None:
                returned = await template.signature.call(_values(template.signature, uri, found), context)
                return _contents(uri, template.definition.mime_type, returned)
        raise UnknownResource(uri)


def _values(signature: Signature, uri: str, found: dict[str, str]) -> dict[str, Any]:
    try:
        return signature.from_strings(found)
    except msgspec.ValidationError:
        raise UnknownResource(uri) from None


def _contents(uri: str, mime_type: str | None, returned: Any) -> list[ResourceContents]:  # noqa: ANN401
    items = each(returned)
    if items and all(isinstance(item, ResourceContents) for item in items):
        return items
    if isinstance(returned, str | bytes):
        return [ResourceContents.of(uri, returned, mime_type)]
    return [ResourceContents.of(uri, msgspec.json.encode(returned).decode(), mime_type or "application/json")]

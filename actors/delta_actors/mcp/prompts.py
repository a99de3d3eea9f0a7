"""The prompts feature: `prompts/list` and `prompts/get` over a `PromptSource` (spec 1.11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.methods import Method, list_page
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.offers import PromptDefinition, PromptResult, read_arguments, required_text
from delta_protocol.mcp.versions import Era


class PromptSource(Protocol):
    """Where a server's prompts come from. Every method runs in the request's own scope."""

    def offers_prompts(self) -> bool:
        """Whether there are any now; else the feature is not advertised."""
        ...

    async def list_prompts(self, context: RequestContext) -> Sequence[PromptDefinition | Json]:
        """Return the prompts in a stable order; bytes are a prompt's JSON text."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str], context: RequestContext) -> PromptResult | Json:
        """Return the prompt; bytes are a whole GetPromptResult's JSON text. Raises `UnknownPrompt`, `RpcError`."""
        ...


class Prompts:
    """The feature. `size` is the length of a page."""

    def __init__(self, source: PromptSource, size: int) -> None:
        self.source = source
        self._size = size
        self.methods: Mapping[str, Method] = {
            "prompts/list": Method(self._list),
            "prompts/get": Method(self._get, asks=True),
        }

    def capabilities(self, era: Era) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Return the prompts capability."""
        return {"prompts": {"listChanged": True}} if self.source.offers_prompts() else {}

    async def _list(self, call: IncomingCall, context: RequestContext) -> Json:
        prompts = await self.source.list_prompts(context)
        texts = [prompt if isinstance(prompt, bytes) else msgspec.json.encode(prompt) for prompt in prompts]
        return list_page(call, "prompts", texts, self._size)

    async def _get(self, call: IncomingCall, context: RequestContext) -> Json:
        result = await self.source.get_prompt(required_text(call, "name"), read_arguments(call), context)
        return result if isinstance(result, bytes) else msgspec.json.encode(result)

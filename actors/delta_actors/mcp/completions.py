"""The completion feature: suggestions for arguments of prompts and resource templates (spec 1.11)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.methods import Method
from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.incoming import IncomingCall
from delta_protocol.mcp.offers import Completion, CompletionRequest, Reference, read_completion
from delta_protocol.mcp.versions import Era

Suggest = Callable[
    [str, Mapping[str, str]], "Sequence[str] | Completion | Awaitable[Sequence[str]] | Awaitable[Completion]"
]
"""Takes the text so far and the other arguments' values; returns suggestions, best first."""


class CompletionSource(Protocol):
    """Where suggestions come from."""

    def offers_completions(self) -> bool:
        """Whether there are any; else the feature is not advertised."""
        ...

    async def complete(self, request: CompletionRequest, context: RequestContext) -> Completion | Json:
        """Return the suggestions; bytes are a whole CompleteResult's JSON text."""
        ...


class Completions:
    """The feature."""

    def __init__(self, source: CompletionSource) -> None:
        self.source = source
        self.methods: Mapping[str, Method] = {"completion/complete": Method(self._complete)}

    def capabilities(self, era: Era) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Return the completions capability."""
        return {"completions": {}} if self.source.offers_completions() else {}

    async def _complete(self, call: IncomingCall, context: RequestContext) -> Json:
        found = await self.source.complete(read_completion(call), context)
        return found if isinstance(found, bytes) else found.to_json()


class FunctionCompletions:
    """The functions that a server was given by its `completion` decorator."""

    def __init__(self, exists: Callable[[Reference], None]) -> None:
        self._functions: dict[tuple[Reference, str], Suggest] = {}
        self._exists = exists

    def add(self, reference: Reference, argument: str, function: Suggest) -> None:
        """Add a function. Raises `ValueError` where there is one already."""
        if (reference, argument) in self._functions:
            raise ValueError(f"there is already a completion of {argument!r} for {reference.name!r}")
        self._functions[reference, argument] = function

    def offers_completions(self) -> bool:
        """Whether any function was given."""
        return bool(self._functions)

    async def complete(self, request: CompletionRequest, context: RequestContext) -> Completion | Json:  # noqa: ARG002
        """Return the function's suggestions, none without one. Raises `RpcError` for a reference to nothing."""
        self._exists(request.reference)
        function = self._functions.get((request.reference, request.argument))
        if function is None:
            return Completion(())
        found = function(request.value, request.known)
        if inspect.isawaitable(found):
            found = await found
        return found if isinstance(found, Completion) else Completion(found)

"""Plain functions as prompts: the arguments come from the signature."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from delta_actors.mcp.context import RequestContext
from delta_actors.mcp.signatures import Signature, each
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.offers import PromptArgument, PromptDefinition, PromptMessage, PromptResult, UnknownPrompt
from delta_protocol.mcp.types import TextContent


@dataclass(frozen=True, slots=True)
class FunctionPrompt:
    """One function as a prompt."""

    definition: PromptDefinition
    signature: Signature


class FunctionPrompts:
    """The prompts a server was given by its `prompt` decorator, in the order of definition.

    A function returns text (one user message), a `PromptMessage`, a list of them, or a `PromptResult`.
    """

    def __init__(self) -> None:
        self._prompts: dict[str, FunctionPrompt] = {}

    def add(self, prompt: FunctionPrompt) -> None:
        """Add a prompt. Raises `ValueError` for a name that is taken."""
        name = prompt.definition.name
        if name in self._prompts:
            raise ValueError(f"there is already a prompt called {name!r}")
        self._prompts[name] = prompt

    def remove(self, name: str) -> None:
        """Remove a prompt. Raises `KeyError` where there is none of that name."""
        del self._prompts[name]

    def has(self, name: str) -> bool:
        """Whether there is a prompt of that name."""
        return name in self._prompts

    def offers_prompts(self) -> bool:
        """Whether any function was given."""
        return bool(self._prompts)

    async def list_prompts(self, context: RequestContext) -> Sequence[PromptDefinition | Json]:  # noqa: ARG002
        """Return the definitions."""
        return [prompt.definition for prompt in self._prompts.values()]

    async def get_prompt(self, name: str, arguments: Mapping[str, str], context: RequestContext) -> PromptResult | Json:
        """Run the function. Raises `UnknownPrompt`, `RpcError` -32602 for arguments that are missing or do not fit."""
        prompt = self._prompts.get(name)
        if prompt is None:
            raise UnknownPrompt(name)
        try:
            values = prompt.signature.from_strings(arguments)
        except msgspec.ValidationError as error:
            raise RpcError(INVALID_PARAMS, f"prompt {name}: {error}") from None
        return _result(await prompt.signature.call(values, context), prompt.definition.description)


def prompt_arguments(signature: Signature) -> tuple[PromptArgument, ...]:
    """Return the parameters as a prompt's arguments; title and description come from `msgspec.Meta`."""
    hints = typing.get_type_hints(signature.function, include_extras=True)
    defaults = {each.name: each for each in msgspec.structs.fields(signature.arguments)}
    return tuple(_argument(name, hints.get(name), required=defaults[name].required) for name in signature.names)


def _argument(name: str, hint: Any, *, required: bool) -> PromptArgument:  # noqa: ANN401 - a type
    notes = [note for note in typing.get_args(hint)[1:] if isinstance(note, msgspec.Meta)]
    title = next((note.title for note in notes if note.title), None)
    description = next((note.description for note in notes if note.description), None)
    return PromptArgument(name, title, description, required)


def _result(returned: Any, description: str | None) -> PromptResult:  # noqa: ANN401 - whatever the function returned
    if isinstance(returned, PromptResult):
        return returned
    return PromptResult([_message(item) for item in each(returned)], description)


def _message(item: Any) -> PromptMessage:  # noqa: ANN401 - whatever the function returned
    if isinstance(item, PromptMessage):
        return item
    return PromptMessage("user", TextContent(item)) if isinstance(item, str) else PromptMessage("user", item)

"""What a server offers besides tools: resources, prompts and completions, as they stand in messages (spec 1.11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member, read_object
from delta_protocol.mcp.types import Annotations, Block, Icon

MAX_COMPLETIONS = 100


class ResourceDefinition(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A resource as `resources/list` shows it. `size` in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class ResourceTemplate(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Resources that share a URI template (RFC 6570)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class PromptArgument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One argument of a prompt; its value is always a string."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class PromptDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt as `prompts/list` shows it."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()
    icons: tuple[Icon, ...] = ()
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class PromptMessage(msgspec.Struct, frozen=True):
    """One message of a prompt."""

    role: Literal["user", "assistant"]
    content: Block


class PromptResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `prompts/get` answers."""

    messages: Sequence[PromptMessage]
    description: str | None = None


class Completion(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Suggested values, best first; more than 100 are cut, and `has_more` says so."""

    values: Sequence[str]
    total: int | None = None
    has_more: bool | None = None

    def to_json(self) -> Json:
        """Return the CompleteResult's JSON text."""
        shown = self
        if len(self.values) > MAX_COMPLETIONS:
            shown = Completion(self.values[:MAX_COMPLETIONS], self.total or len(self.values), has_more=True)
        return msgspec.json.encode({"completion": shown})


class Reference(msgspec.Struct, frozen=True):
    """What a completion is for: a prompt by its name, or a resource by its URI or template."""

    kind: Literal["prompt", "resource"]
    name: str


class CompletionRequest(msgspec.Struct, frozen=True):
    """`completion/complete`: the argument's name and the text so far; `known` are the other arguments' values."""

    reference: Reference
    argument: str
    value: str
    known: Mapping[str, str]


class UnknownResource(RpcError):
    """Nothing can be read at that URI: -32602, told to legacy clients as -32002 (spec 1.11, 3.3)."""

    def __init__(self, uri: str) -> None:
        super().__init__(INVALID_PARAMS, f"Resource not found: {uri}", msgspec.json.encode({"uri": uri}))
        self.uri = uri


class UnknownPrompt(RpcError):
    """The server has no prompt of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(INVALID_PARAMS, f"Unknown prompt: {name}", msgspec.json.encode({"name": name}))


def required_text(call: IncomingCall, key: str) -> str:
    """Return the string member `key` of the params. Raises `RpcError` -32602 where there is none."""
    value = call.text(key)
    if value is None:
        raise RpcError(INVALID_PARAMS, f"{call.method}: {key} is missing")
    return value


def read_arguments(call: IncomingCall) -> dict[str, str]:
    """Return the arguments of `prompts/get`. Raises `RpcError` -32602 where they are no map of strings."""
    return _strings(call.params["arguments"], "arguments") if "arguments" in call.params else {}


def read_completion(call: IncomingCall) -> CompletionRequest:
    """Return what is to be completed. Raises `RpcError` -32602 for malformed params."""
    reference = _member(call, "ref")
    kind, names = _text(reference, "type"), {"ref/prompt": "name", "ref/resource": "uri"}
    if kind not in names:
        raise RpcError(INVALID_PARAMS, f"{call.method}: ref.type must be ref/prompt or ref/resource")
    argument = _member(call, "argument")
    known: dict[str, str] = {}
    if "context" in call.params:
        context = read_object(bytes(call.params["context"]), "context")
        known = _strings(context["arguments"], "context.arguments") if "arguments" in context else {}
    return CompletionRequest(
        Reference("prompt" if kind == "ref/prompt" else "resource", _text(reference, names[kind])),
        _text(argument, "name"),
        _text(argument, "value"),
        known,
    )


def _member(call: IncomingCall, key: str) -> Mapping[str, Raw]:
    if key not in call.params:
        raise RpcError(INVALID_PARAMS, f"{call.method}: {key} is missing")
    return read_object(bytes(call.params[key]), key)


def _text(members: Mapping[str, Raw], key: str) -> str:
    value = decode_member(members, key)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{key} must be a string")
    return value


def _strings(text: Raw, what: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"{what} must be an object of strings: {error}") from None

"""Tools, their results and the peers, as both eras share them. What is not needed in decoded form stays JSON text."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json


class Icon(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A picture to show; `src` is an https or data URI, `sizes` like `48x48` or `any`."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] = ()
    theme: Literal["light", "dark"] | None = None


class Implementation(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Who a peer says it is. Self-reported: shown and logged, never decided on (spec 1.3)."""

    name: str
    version: str = ""
    title: str | None = None
    description: str | None = None
    icons: tuple[Icon, ...] = ()
    website_url: str | None = None


class Annotations(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Hints on content and resources. `priority` is 0 to 1, `last_modified` ISO 8601."""

    audience: tuple[Literal["user", "assistant"], ...] = ()
    priority: float | None = None
    last_modified: str | None = None


class _Block(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="type", kw_only=True):
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class TextContent(_Block, frozen=True, tag="text"):
    """A text block."""

    text: str


class ImageContent(_Block, frozen=True, tag="image"):
    """An image; `data` is base64."""

    data: str
    mime_type: str


class AudioContent(_Block, frozen=True, tag="audio"):
    """A sound; `data` is base64."""

    data: str
    mime_type: str


class ResourceLink(_Block, frozen=True, tag="resource_link"):
    """A pointer to something that can be read. `size` in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: tuple[Icon, ...] = ()


class ResourceContents(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What reading a resource gives: exactly one of `text` and `blob` (base64)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)

    @classmethod
    def of(cls, uri: str, content: str | bytes, mime_type: str | None = None) -> ResourceContents:
        """Return the contents of a resource: text as it is, bytes as a blob."""
        if isinstance(content, str):
            return cls(uri, mime_type, content)
        return cls(uri, mime_type, None, base64.b64encode(content).decode())


class EmbeddedResource(_Block, frozen=True, tag="resource"):
    """A resource's contents inside a message."""

    resource: ResourceContents


Block = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Content = Block | Json
"""A content block; bytes are the block's JSON text, passed through as it is."""


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool as `tools/list` shows it. Schemas, annotations and meta are JSON text of objects."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Json = b'{"type":"object"}'
    output_schema: Json | None = None
    annotations: Json | None = None
    meta: Json | None = None
    icons: tuple[Icon, ...] = ()

    def to_json(self, more: Mapping[str, Any] | None = None) -> Json:
        """Return the definition's JSON text, with the members `more` at its end."""
        body: dict[str, Any] = {"name": self.name}
        if self.title is not None:
            body["title"] = self.title
        if self.description is not None:
            body["description"] = self.description
        body["inputSchema"] = Raw(self.input_schema)
        for key, text in (
            ("outputSchema", self.output_schema),
            ("annotations", self.annotations),
            ("_meta", self.meta),
        ):
            if text is not None:
                body[key] = Raw(text)
        if self.icons:
            body["icons"] = self.icons
        return msgspec.json.encode(body | dict(more or {}))


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answers. `structured` and `meta` are JSON text."""

    content: Sequence[Content] = ()
    structured: Json | None = None
    is_error: bool = False
    meta: Json | None = None

    @classmethod
    def text(cls, text: str, *, is_error: bool = False) -> ToolResult:
        """Return a result of one text block."""
        return cls((TextContent(text),), is_error=is_error)

    def to_json(self) -> Json:
        """Return the CallToolResult's JSON text, without what only one era has."""
        body: dict[str, Any] = {"content": [Raw(item) if isinstance(item, bytes) else item for item in self.content]}
        if self.structured is not None:
            body["structuredContent"] = Raw(self.structured)
        if self.is_error:
            body["isError"] = True
        if self.meta is not None:
            body["_meta"] = Raw(self.meta)
        return msgspec.json.encode(body)


class CallToolReply(msgspec.Struct, frozen=True):
    """A tool's answer as it came: `result` is the CallToolResult's JSON text."""

    result: Json
    is_error: bool


def json_object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - decoded JSON from a peer
    """Return `value` if it is a decoded JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def json_array(value: Any) -> list[Any]:  # noqa: ANN401 - decoded JSON from a peer
    """Return `value` if it is a decoded JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def flatten_capabilities(capabilities: Any) -> tuple[str, ...]:  # noqa: ANN401 - decoded JSON from a peer
    """Return declared ClientCapabilities as sorted dotted names: `elicitation.form`, `elicitation.url`, `sampling`,
    `sampling.tools`, `sampling.context`, `roots`, and `extensions.<id>`.

    An empty `elicitation` object means form (spec 1.14); what is no object is not declared.
    """
    declared = json_object(capabilities)
    names: set[str] = set()
    for key in ("roots", "sampling"):
        if isinstance(declared.get(key), dict):
            names.add(key)
            names.update(f"{key}.{inner}" for inner in ("tools", "context") if inner in declared[key])
    if isinstance(declared.get("elicitation"), dict):
        elicitation = json_object(declared["elicitation"])
        modes = {mode for mode in ("form", "url") if isinstance(elicitation.get(mode), dict)}
        names.update(f"elicitation.{mode}" for mode in modes or {"form"})
    names.update(f"extensions.{name}" for name in json_object(declared.get("extensions")))
    return tuple(sorted(names))


def needed_capability(method: str, params: Json) -> str:
    """Return the dotted capability that a client must have declared to be asked `method`."""
    if method == "roots/list":
        return "roots"
    decoded = msgspec.json.decode(params, type=dict[str, Raw])
    if method == "sampling/createMessage":
        return "sampling.tools" if "tools" in decoded else "sampling"
    mode = msgspec.json.decode(decoded["mode"]) if "mode" in decoded else "form"
    return f"elicitation.{mode}"


def capability_object(name: str) -> Json:
    """Return the ClientCapabilities object that declares the dotted `name`; the form -32021's data takes."""
    body: dict[str, Any] = {}
    for part in reversed(name.split(".")):
        body = {part: body}
    return msgspec.json.encode(body)

"""Tools with the names and answers that the official suite asks for (texts are the suite's)."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Annotated, Any

import msgspec
import trio

from delta_actors.mcp import (
    AudioContent,
    DeltaServer,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    RequestContext,
    ResourceContents,
    TextContent,
    ToolResult,
    elicit,
    sample,
)

STEP = 0.05
"""Seconds between notifications, so that a client can see them come one by one."""

SCHEMA_2020_12 = msgspec.json.encode(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)


def _png() -> bytes:
    """Return a red square of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
        + chunk(b"IEND", b"")
    )


def _wav() -> bytes:
    """Return a few samples of silence."""
    data = bytes(16)
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


PNG = _png()
IMAGE = ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")
AUDIO = AudioContent(data=base64.b64encode(_wav()).decode(), mime_type="audio/wav")


def add_content(server: DeltaServer) -> None:
    """Add one tool per kind of content, and those that report or fail."""

    @server.tool()
    def test_simple_text() -> str:
        """One text."""
        return "This is a simple text response for testing."

    @server.tool()
    def test_image_content() -> ImageContent:
        """One image."""
        return IMAGE

    @server.tool()
    def test_audio_content() -> AudioContent:
        """One sound."""
        return AUDIO

    @server.tool()
    def test_embedded_resource() -> EmbeddedResource:
        """One resource inside the message."""
        text = "This is an embedded resource content."
        return EmbeddedResource(resource=ResourceContents("test://embedded-resource", "text/plain", text))

    @server.tool()
    def test_multiple_content_types() -> list[Any]:
        """A text, an image and a resource."""
        text = '{"test":"data","value":123}'
        resource = ResourceContents("test://mixed-content-resource", "application/json", text)
        return [TextContent(text="Multiple content types test:"), IMAGE, EmbeddedResource(resource=resource)]

    @server.tool()
    def test_error_handling() -> ToolResult:
        """Fails."""
        return ToolResult.text("This tool intentionally returns an error for testing", is_error=True)

    @server.tool(input_schema=SCHEMA_2020_12)
    def json_schema_2020_12_tool() -> str:
        """Has a schema with keywords that only JSON Schema 2020-12 knows."""
        return "The arguments fit the schema."

    @server.tool()
    def test_x_mcp_header(
        region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})], note: str = ""
    ) -> str:
        """Has an argument that HTTP clients repeat in a header."""
        return f"Region: {region}. {note}"


def add_reports(server: DeltaServer) -> None:
    """Add the tools that tell the client something while they work."""

    @server.tool()
    async def test_tool_with_logging(context: RequestContext) -> str:
        """Logs three times."""
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.log("info", text)
            await trio.sleep(STEP)
        return "Logged three messages."

    @server.tool()
    async def test_logging_tool(context: RequestContext) -> str:
        """Logs where the request asks for it."""
        await context.log("info", "Only for requests with a log level")
        return "Logged, if that was wanted."

    @server.tool()
    async def test_tool_with_progress(context: RequestContext) -> str:
        """Reports progress in three steps."""
        for done in (0, 50, 100):
            await context.progress(done, 100, f"Completed step {done} of 100")
            await trio.sleep(STEP)
        return "Completed."

    @server.tool()
    async def test_reconnection(context: RequestContext) -> str:
        """Lets the client go in the middle; over legacy HTTP it comes back for the answer."""
        await context.close_stream()
        await trio.sleep(2 * STEP)
        return "Reconnection test completed successfully."

    @server.tool()
    async def test_trigger_tool_change() -> str:
        """Adds a tool, or takes it back: whoever looks now sees another list than before."""
        try:
            server.remove_tool("test_added_tool")
        except KeyError:
            server.tool("test_added_tool", description="There until the next change.")(lambda: "added")
        return "The tools changed."

    @server.tool()
    async def test_trigger_prompt_change() -> str:
        """Adds a prompt, or takes it back."""
        try:
            server.remove_prompt("test_added_prompt")
        except KeyError:
            server.prompt("test_added_prompt", description="There until the next change.")(lambda: "added")
        return "The prompts changed."


def add_legacy_questions(server: DeltaServer) -> None:
    """Add the tools that ask the client in the legacy era's scenarios, and two for the modern era's rules."""

    @server.tool()
    async def test_sampling(prompt: str, context: RequestContext) -> str:
        """Asks the client's model."""
        (answer,) = await context.ask(sample([PromptMessage("user", TextContent(text=prompt))], 100))
        return f"LLM response: {json.loads(answer)['content']['text']}"

    @server.tool()
    async def test_elicitation(message: str, context: RequestContext) -> str:
        """Asks the user for a name and an address."""
        fields = {"username": {"type": "string", "description": "User's response"}, "email": {"type": "string"}}
        (answer,) = await context.ask(elicit(message, _form(fields, ["username", "email"])))
        return f"User response: {_answered(answer)}"

    @server.tool()
    async def test_elicitation_sep1034_defaults(context: RequestContext) -> str:
        """Asks with a default for each kind of field."""
        fields = {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "description": "Verification status", "default": True},
        }
        (answer,) = await context.ask(elicit("Please review and update the form fields", _form(fields, [])))
        return f"Elicitation completed: {_answered(answer)}"

    @server.tool()
    async def test_elicitation_sep1330_enums(context: RequestContext) -> str:
        """Asks with each form of enumeration."""
        plain = ["option1", "option2", "option3"]
        titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
        fields = {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": plain, "enumNames": ["Option 1", "Option 2", "Option 3"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        }
        (answer,) = await context.ask(elicit("Please select options", _form(fields, [])))
        return f"Elicitation completed: {_answered(answer)}"

    @server.tool()
    async def test_streaming_elicitation(context: RequestContext) -> str:
        """Reports progress, then asks."""
        await context.progress(1, 2, "about to ask")
        (answer,) = await context.ask(elicit("Go on?", _form({"ok": {"type": "boolean"}}, ["ok"])))
        return f"Answered: {_answered(answer)}"

    @server.tool()
    async def test_missing_capability(context: RequestContext) -> str:
        """Cannot work without the client's model."""
        (answer,) = await context.ask(sample([PromptMessage("user", TextContent(text="Say hello"))], 50))
        return f"LLM response: {json.loads(answer)['content']['text']}"


def _form(fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required}


def _answered(answer: bytes) -> str:
    body = json.loads(answer)
    return f"action={body['action']}, content={json.dumps(body.get('content', {}))}"

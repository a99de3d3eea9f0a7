"""Tools with the names and behaviour that the official suite's scenarios for the tasks extension ask for."""

from __future__ import annotations

import msgspec
import trio

from delta_actors.mcp import DeltaServer, RequestContext, RpcError, ToolResult, elicit
from delta_protocol.mcp.types import json_object

CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
VALUE = {"type": "object", "properties": {"value": {"type": "string"}}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


def add_tasks(server: DeltaServer) -> None:
    """Add them."""

    @server.tool()
    def greet(name: str) -> str:
        """Greet somebody, at once."""
        return f"Hello, {name}!"

    @server.tool(task="optional")
    async def slow_compute(seconds: float, context: RequestContext, label: str = "") -> str:
        """Compute for some seconds; a task where there is time for one."""
        if seconds > 0:
            await context.begin_task()
            await trio.sleep(seconds)
        return f"computed {label} in {seconds:g} s"

    @server.tool(task="required")
    async def failing_job(context: RequestContext) -> ToolResult:
        """Work for a while, then fail as a tool does."""
        await context.begin_task()
        await trio.sleep(1)
        return ToolResult.text("the job failed", is_error=True)

    @server.tool(task="required")
    async def protocol_error_job(context: RequestContext) -> str:
        """Begin, then end in an error of the protocol."""
        await context.begin_task()
        await trio.sleep(0.2)
        raise RpcError(-32603, "the job broke")


def add_asking_tasks(server: DeltaServer) -> None:
    """Add those that ask, within their task or before it."""

    @server.tool(task="optional")
    async def confirm_delete(filename: str, context: RequestContext) -> str:
        """Ask for confirmation within the task."""
        await context.begin_task()
        (answer,) = await context.ask(elicit(f"Delete {filename}?", CONFIRM, key="confirm"))
        confirmed = _content(answer).get("confirm") is True
        return f"deleted {filename}" if confirmed else f"kept {filename}"

    @server.tool(task="optional")
    async def multi_input(context: RequestContext) -> str:
        """Ask two questions at once within the task."""
        await context.begin_task()
        answers = await context.ask(elicit("First?", VALUE, key="first"), elicit("Second?", VALUE, key="second"))
        return ", ".join(str(_content(answer).get("value")) for answer in answers)

    @server.tool(task="required")
    async def test_tool_with_task(context: RequestContext) -> str:
        """Ask for a name first, then go on as a task."""
        (answer,) = await context.ask(elicit("Who are you?", NAME, key="user_name"))
        await context.begin_task()
        return f"Hello, {_content(answer).get('name')}!"


def _content(answer: bytes) -> dict[str, object]:
    return json_object(json_object(msgspec.json.decode(answer)).get("content"))

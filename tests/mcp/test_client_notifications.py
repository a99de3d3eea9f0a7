"""What a server tells for the sake of one request reaches that request's own listener."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

from conformance import official
from delta_actors.mcp import HttpParameters, StdioParameters, open_http, open_stdio
from delta_protocol.jsonrpc import Json

PROGRAM = Path(__file__).parents[2] / "conformance" / "everything_server.py"


class Heard:
    """Notifications, as they come."""

    def __init__(self) -> None:
        self.send, self._receive = trio.open_memory_channel[tuple[str, Json]](100)

    def take(self, method: str, params: Json) -> None:
        self.send.send_nowait((method, params))

    async def next(self) -> tuple[str, Json]:
        with trio.fail_after(20):
            return await self._receive.receive()


async def test_a_subscription_on_lines_is_told_apart_by_its_id() -> None:
    heard = Heard()
    async with open_stdio(StdioParameters(sys.executable, (str(PROGRAM), "stdio"), era="modern")) as client:
        async with trio.open_nursery() as nursery:
            listen = b'{"notifications":{"promptsListChanged":true}}'
            nursery.start_soon(
                lambda: client.request("subscriptions/listen", listen, on_notification=heard.take),
            )
            assert (await heard.next())[0] == "notifications/subscriptions/acknowledged"
            await client.call_tool("test_trigger_prompt_change", b"{}")
            assert (await heard.next())[0] == "notifications/prompts/list_changed"
            nursery.cancel_scope.cancel()


async def test_log_messages_come_on_the_stream_of_the_request_that_asked_for_them() -> None:
    heard = Heard()
    with official.everything_server() as url:
        async with open_http(HttpParameters(url, era="modern")) as client:
            call = b'{"name":"test_logging_tool","arguments":{}}'
            meta = {"io.modelcontextprotocol/logLevel": "info"}
            await client.request("tools/call", call, on_notification=heard.take, meta=meta)
            method, params = await heard.next()
            assert method == "notifications/message"
            assert json.loads(params)["level"] == "info"

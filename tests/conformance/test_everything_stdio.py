"""The server under test over stdio, which the official suite does not reach: the same answers in both eras."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from conformance import everything_server
from delta_actors.mcp import RpcError, StdioParameters, open_stdio
from delta_actors.mcp.client import DeltaClient

PROGRAM = Path(__file__).parents[2] / "conformance" / "everything_server.py"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_stdio_offers_what_http_offers(era: Literal["legacy", "modern"]) -> None:
    async with open_stdio(StdioParameters(sys.executable, (str(PROGRAM), "stdio"), era=era)) as client:
        assert (client.era, client.server_info.name) == (era, "delta-everything")
        offered = json.loads(client.capabilities)
        long_calls = "tasks" if era == "legacy" else "extensions"
        assert sorted(offered) == sorted(["completions", "logging", "prompts", "resources", "tools", long_calls])
        tools = {tool["name"]: tool for tool in map(json.loads, await client.list_tools())}
        assert tools["json_schema_2020_12_tool"]["inputSchema"]["$defs"]["address"]["$anchor"] == "addressDef"
        assert {"test_simple_text", "test_x_mcp_header", "test_input_required_result_multi_round"} <= set(tools)

        result = await _call(client, "tools/call", name="test_multiple_content_types")
        assert [block["type"] for block in result["content"]] == ["text", "image", "resource"]
        read = await _call(client, "resources/read", uri="test://template/123/data")
        assert json.loads(read["contents"][0]["text"]) == {
            "id": "123",
            "templateTest": True,
            "data": "Data for ID: 123",
        }
        got = await _call(client, "prompts/get", name="test_prompt_with_image")
        assert [message["content"]["type"] for message in got["messages"]] == ["image", "text"]
        if era == "modern":
            with pytest.raises(RpcError) as caught:
                await _call(client, "tools/call", name="test_missing_capability")
            assert caught.value.code == -32021
        else:
            assert (await _call(client, "tools/call", name="test_missing_capability"))["isError"]


async def _call(client: DeltaClient, method: str, **params: Any) -> Any:
    return json.loads(await client.request(method, json.dumps(params).encode()))


def test_a_wrong_command_line_is_told() -> None:
    assert everything_server.main(["http", "many"]) == 64

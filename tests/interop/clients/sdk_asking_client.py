"""The official Python SDK's client, with everything a server may ask of it: prints what a gateway passed through.

usage: sdk_asking_client.py ERA URL   (ERA: legacy | 2026-07-28)

Behind the gateway is @modelcontextprotocol/server-everything.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp import Client, types

SEEN: dict[str, Any] = {"asked": [], "progress": []}


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    SEEN["asked"].append(params.message)
    content = {"name": "Ada"} if getattr(params, "mode", "form") != "url" else None
    return types.ElicitResult(action="accept", content=content)


async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    SEEN["asked"].append("sampling")
    text = types.TextContent(type="text", text="forty-two")
    return types.CreateMessageResult(role="assistant", content=text, model="m", stop_reason="endTurn")


async def rooted(context: Any) -> types.ListRootsResult:
    SEEN["asked"].append("roots")
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada")])


async def progressed(done: float, total: float | None, message: str | None) -> None:
    SEEN["progress"].append([done, total])


async def text(client: Client, name: str, arguments: dict[str, Any], **more: Any) -> str:
    result = await client.call_tool(name, arguments, **more)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def main(era: str, url: str) -> None:
    async with Client(
        url, mode=era, elicitation_callback=elicited, sampling_callback=sampled, list_roots_callback=rooted
    ) as client:
        SEEN["protocol"] = client.protocol_version
        SEEN["elicited"] = await text(client, "trigger-elicitation-request", {})
        SEEN["sampled"] = await text(client, "trigger-sampling-request", {"prompt": "hi", "maxTokens": 5})
        SEEN["roots"] = await text(client, "get-roots-list", {})
        slow = {"duration": 0.6, "steps": 3}
        SEEN["slow"] = await text(client, "trigger-long-running-operation", slow, progress_callback=progressed)
        SEEN["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        got = await client.get_prompt("args-prompt", {"city": "Turin"})
        SEEN["prompt"] = got.messages[0].content.text
        reference = types.PromptReference(type="ref/prompt", name="completable-prompt")
        done = await client.complete(reference, {"name": "department", "value": "E"})
        SEEN["completed"] = done.completion.values
        SEEN["resources"] = len((await client.list_resources()).resources)
        read = await client.read_resource("demo://resource/dynamic/text/1")
        SEEN["read"] = read.contents[0].text
    print(json.dumps(SEEN))


anyio.run(main, sys.argv[1], sys.argv[2])

"""Many connectors at once, some of them broken: the first answer does not wait, and the text does not move."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from tests import shared_data
from tests.stack.harness import Stack, running
from tests.stack.wire import open_relay

REPLAY = Path(__file__).parent / "connectors" / "replay.py"
GENERATED = 8


def config(listings: Sequence[Path], seed: int) -> str:
    """Return a configuration with a connector per listing, tools in a shuffled order, and three broken ones."""
    parts = ["version = 1\n"]
    for path in listings:
        arguments = json.dumps([str(REPLAY), str(path), str(seed)])
        name = path.stem.replace("-", "_")
        parts.append(f"[connectors.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n")
    parts.append(
        f"[connectors.hangs]\ncommand = {json.dumps(sys.executable)}\nargs = ['-c', 'import time; time.sleep(900)']\n"
    )
    parts.append(f"[connectors.exits]\ncommand = {json.dumps(sys.executable)}\nargs = ['-c', 'raise SystemExit(3)']\n")
    parts.append("[connectors.missing]\ncommand = '/nonexistent/program'\n")
    return "\n".join(parts)


def generated(home: Path) -> list[Path]:
    """Write listings of our own: families, plain tools, awkward names."""
    paths = []
    for number in range(GENERATED):
        tools = [
            {"name": f"{verb}_{noun}{number}", "description": f"{verb} a {noun}", "inputSchema": schema(verb)}
            for noun in ("note", "tag", "board")
            for verb in ("get", "list", "create", "update", "delete")
        ]
        tools.append(
            {"name": f"send-mail.{number}", "description": 'Ünïcode, "quotes"', "inputSchema": {"type": "object"}}
        )
        path = home / f"made{number}.json"
        path.write_text(json.dumps({"initialize": {"capabilities": {"tools": {}}}, "tools": tools}))
        paths.append(path)
    return paths


def schema(verb: str) -> dict[str, Any]:
    properties: dict[str, Any] = {} if verb in {"list", "create"} else {"id": {"type": "string"}}
    if verb in {"create", "update"}:
        properties["title"] = {"type": "string"}
    required = ["id"] if "id" in properties else []
    return {"type": "object", "properties": properties, "required": required}


async def first_tools(stack: Stack) -> tuple[str, float]:
    """Return the first `tools/list` of a fresh client, as bytes would be compared, and the seconds it took."""
    async with open_relay(stack) as client:
        await client.request("server/discover")
        began = time.monotonic()
        with trio.fail_after(30):
            answer = await client.request("tools/list")
        return json.dumps(answer["result"]["tools"], ensure_ascii=False), time.monotonic() - began


async def all_listed(stack: Stack, names: Sequence[str]) -> str:
    """Return the tools' text once every connector that can answer has answered."""
    with trio.fail_after(120):
        while True:
            text, _ = await first_tools(stack)
            if all(name in text and f"## {name}: starting" not in text for name in names):
                return text
            await trio.sleep(1)


async def check_stability(home: Path, listings: Sequence[Path], names: Sequence[str]) -> None:
    texts: list[str] = []
    for seed in range(3):
        with running(home, config(listings, seed)) as stack:
            _, seconds = await first_tools(stack)
            assert seconds < 5, "the first list waits for no connector"
            texts.append(await all_listed(stack, names))
    assert texts[1] == texts[0]
    assert texts[2] == texts[0]


async def test_generated_listings_are_answered_at_once_and_read_alike_after_shuffles_and_restarts(
    home: Path,
) -> None:  # acceptance 11
    listings = generated(home)
    names = [f"send_mail_{number}" for number in range(GENERATED)]
    await check_stability(home, listings, names)


@pytest.mark.shared_data
async def test_collected_listings_are_answered_at_once_and_read_alike_after_shuffles_and_restarts(
    home: Path,
) -> None:
    listings = shared_data.listings()
    assert len(listings) == 30
    await check_stability(home, listings, [path.stem.replace("-", "_") for path in listings])

"""All collected listings at once, replayed as live servers, one of them hanging, one missing, one exiting."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delta_protocol.catalogue import apitext
from delta_protocol.catalogue.model import Catalogue, ConnectorState
from delta_protocol.catalogue.names import identifier
from delta_protocol.config import ConnectorConfig
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import GetCatalogue
from tests import shared_data
from tests.registry.systems import catalogue_when, connector, fake, from_, listed, registry, started

BUDGET = 12_000
VERBS = ("get", "list", "create", "update", "delete", "send")


def replayed(listing: Path, *options: str) -> ConnectorConfig:
    server = shared_data.data("tools", "replay_server.py")
    return ConnectorConfig(command=sys.executable, args=(str(server), str(listing), *options))


def broken(tmp_path: Path) -> dict[str, ConnectorConfig]:
    return {
        "hanging": fake(tmp_path / "hanging", "hang"),
        "missing": ConnectorConfig(command=str(tmp_path / "nothing-here")),
        "exiting": ConnectorConfig(command="/bin/false"),
    }


def all_ready(names: list[str]) -> Callable[[Catalogue], bool]:
    return lambda found: all(connector(found, name).state is ConnectorState.READY for name in names)


@pytest.mark.shared_data
async def test_all_listings_are_served_and_stay_equal_over_a_shuffle_and_restart(tmp_path: Path) -> None:
    listings = {identifier(path.stem): path for path in shared_data.listings()}
    assert len(listings) == 30
    texts: list[str] = []
    for seed in (None, 1, 2):
        options = [] if seed is None else ["--shuffle", str(seed), "--page-size", "50"]
        connectors = broken(tmp_path) | {name: replayed(path, *options) for name, path in listings.items()}
        async with registry(tmp_path / "state", connectors) as system:
            before = await from_(system, Role.TRANSPORT).ask(GetCatalogue())
            catalogue = await catalogue_when(await started(system), all_ready(list(listings)), 300.0)
        texts += [apitext.render(catalogue, BUDGET)]
        if seed is not None:
            texts += [apitext.render(before, BUDGET)]
    assert len(set(texts)) == 1
    upstream = {name: json.loads(path.read_text())["tools"] for name, path in listings.items()}
    for name, tools in upstream.items():
        assert {one.name for one in connector(catalogue, name).tools} == {tool["name"] for tool in tools}
    assert all(f"\n## {name}: starting" in texts[0] for name in broken(tmp_path))


def generated(seed: int) -> list[dict[str, Any]]:
    """Return a listing of a few dozen tools with schemas of many kinds."""
    rng = random.Random(seed)
    kinds: list[dict[str, Any]] = [
        {"type": "string"},
        {"type": "integer", "minimum": 0},
        {"type": ["string", "null"]},
        {"enum": ["a", "b", 3]},
        {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}}},
        {"$ref": "#/$defs/tree"},
        {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    ]
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    tools: list[dict[str, Any]] = []
    for number in range(rng.randint(5, 40)):
        names = rng.sample(["type", "properties", "items", "id", "from", "a-b", "$x", "größe"], rng.randint(0, 6))
        schema: dict[str, Any] = {"type": "object", "properties": {name: rng.choice(kinds) for name in names}}
        schema["required"] = names[: rng.randint(0, len(names))]
        if rng.random() < 0.5:
            schema["$defs"] = {"tree": tree}
        verb, joint = rng.choice(VERBS), rng.choice("_-.")
        tools.append({"name": f"{verb}{joint}thing{joint}{number}", "description": "x" * 50, "inputSchema": schema})
    return tools


async def test_generated_listings_stay_equal_over_shuffles_and_restarts(tmp_path: Path) -> None:
    names = [f"made{number}" for number in range(6)]
    listings = {name: generated(number) for number, name in enumerate(names)}
    texts: set[str] = set()
    for seed in range(4):
        for name, tools in listings.items():
            shuffled = list(tools)
            random.Random(seed * 1000 + len(name)).shuffle(shuffled)
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "tools").write_text(json.dumps(shuffled))
        connectors = broken(tmp_path) | {name: fake(tmp_path / name) for name in names}
        async with registry(tmp_path / "state", connectors) as system:
            catalogue = await catalogue_when(await started(system), all_ready(names))
            texts.add(apitext.render(catalogue, BUDGET))
            assert listed(*names)(catalogue)
    assert len(texts) == 1

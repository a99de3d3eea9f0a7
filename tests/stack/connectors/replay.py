"""Serve a tool listing over stdio, its tools in an order of its own: `replay.py LISTING.json SEED`. Legacy era."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

listing = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
tools = list(listing["tools"])
random.Random(int(sys.argv[2])).shuffle(tools)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"serverInfo": {"name": Path(sys.argv[1]).stem, "version": "1"}}
        return {**info, **listing["initialize"], "protocolVersion": params.get("protocolVersion", "2025-11-25")}
    if method == "tools/list":
        return {"tools": tools}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(params)}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)

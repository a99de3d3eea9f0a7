"""The floor: a server that is one loop over standard input, without any library. Legacy era, one tool `echo`."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [{"name": "echo", "description": "Say it again.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}]

for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if number is None:
        continue
    outcome: dict[str, Any]
    if method == "tools/call":
        outcome = {"result": {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}}
    elif method == "tools/list":
        outcome = {"result": {"tools": TOOLS}}
    elif method == "initialize":
        about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        outcome = {"result": {**about, "serverInfo": {"name": "echo", "version": "1"}}}
    else:
        outcome = {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": number, **outcome}), flush=True)

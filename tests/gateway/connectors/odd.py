"""A connector whose names, values and answers are as odd as the field's. usage: odd.py FOLDER

Standard library only, legacy era. FOLDER/records.json holds its records, FOLDER/requests gets a line for every message
as it came, so that a test sees the very text of a number.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
RECORDS = FOLDER / "records.json"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
RECORD = {"type": "object", "properties": {"id": NUMBER, "owner": NUMBER, "body": TEXT}, "required": ["id", "owner"]}
READS = {"readOnlyHint": True}
AWKWARD = ("a-b", "a_b", "a.b", "3d", "export")


def tool(name: str, properties: dict[str, Any], *, read: bool = True, output: Any = None) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    shown = {"name": name, "inputSchema": schema, "annotations": READS if read else {"readOnlyHint": False}}
    return shown if output is None else {**shown, "outputSchema": output}


TOOLS = [
    *(tool(name, {}) for name in AWKWARD),
    tool("get_record", {"id": NUMBER}, output=RECORD),
    tool("update_record", {"id": NUMBER, "owner": NUMBER, "body": TEXT}, read=False, output=RECORD),
    tool("get_state", {}, output={"type": "object", "properties": {"state": {"enum": ["open", "closed"]}}}),
    tool("get_refused", {}),
    tool("get_rows", {"count": NUMBER}),
    tool("get_text", {"length": NUMBER}),
]


def called(name: str, given: dict[str, Any]) -> dict[str, Any]:
    records = {each["id"]: each for each in json.loads(RECORDS.read_text())} if RECORDS.exists() else {}
    match name:
        case "get_record":
            value: Any = records[given["id"]]
        case "update_record":
            value = records[given["id"]] = {**records[given["id"]], **given}
            RECORDS.write_text(json.dumps([*records.values()]))
        case "get_state":
            value = {"state": "lost"}
        case "get_rows":
            value = {"rows": [{"number": number, "text": f"row {number}"} for number in range(given["count"])]}
        case "get_text":
            return {"content": [{"type": "text", "text": ("é" + "x" * 99) * (given["length"] // 100)}]}
        case "get_refused":
            block = {"type": "text", "text": "the quota is used up", "_meta": {"odd.example/block": 1}}
            return {"content": [block], "isError": True, "_meta": {"odd.example/quota": 1917043659912705296}}
        case _:
            value = {"called": name}
    return {"content": [{"type": "text", "text": "see the structured content"}], "structuredContent": value}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            server = {"name": "odd", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return called(params["name"], params.get("arguments") or {})
        case _:
            return None


for line in sys.stdin:
    with (FOLDER / "requests").open("a") as file:
        file.write(line)
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        error = {"error": {"code": -32601, "message": "not here"}}
        told = {"jsonrpc": "2.0", "id": message["id"], **({"result": result} if result is not None else error)}
        print(json.dumps(told), flush=True)

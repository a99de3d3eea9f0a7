"""A connector that tells afterwards what reached it: items in a file, calls as slow as wished, a log with times.

usage: probe.py FOLDER [--write-seconds S] [--exit-after-write] [--silent]

Standard library only, legacy era. Items live in FOLDER/items.json; FOLDER/log.jsonl gets one line an event:
{"at": CLOCK_MONOTONIC seconds, "pid", "event": "start"|"call"|"done"|"cancelled"|"end", "tool", "arguments"}.
With --silent nothing is ever answered; with --exit-after-write the process dies after each write, before the reply.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--write-seconds", type=float, default=0.0)
parser.add_argument("--exit-after-write", action="store_true")
parser.add_argument("--silent", action="store_true")
options = parser.parse_args()

lock = threading.Lock()
cancelled: dict[Any, threading.Event] = {}
items_file = options.folder / "items.json"
log_file = options.folder / "log.jsonl"

TEXT = {"type": "string"}
ITEM = {"type": "object", "properties": {"id": TEXT, "value": TEXT}, "required": ["id", "value"]}


def tool(
    name: str, properties: dict[str, Any], required: list[str], *, read: bool, output: Any = None
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    hints = {"readOnlyHint": read, "destructiveHint": False, "openWorldHint": False}
    described = {"name": name, "description": name.replace("_", " "), "inputSchema": schema, "annotations": hints}
    return {**described, "outputSchema": output} if output is not None else described


TOOLS = [
    tool("get_item", {"id": TEXT}, ["id"], read=True, output=ITEM),
    tool("update_item", {"id": TEXT, "value": TEXT}, ["id"], read=False, output=ITEM),
    tool("wait", {"seconds": {"type": "number"}}, ["seconds"], read=True),
    tool("never", {}, [], read=True),
    tool("never_written", {}, [], read=False),
]


def log(event: str, **more: Any) -> None:
    with log_file.open("a") as file:
        file.write(json.dumps({"at": time.monotonic(), "pid": os.getpid(), "event": event, **more}) + "\n")


def items() -> dict[str, str]:
    return dict(json.loads(items_file.read_text())) if items_file.exists() else {}


def store(all_items: dict[str, str]) -> None:
    part = items_file.with_suffix(".part")
    part.write_text(json.dumps(all_items))
    part.replace(items_file)


def call(name: str, arguments: dict[str, Any], stopped: threading.Event) -> Any:
    if name == "get_item":
        with lock:
            return {"id": arguments["id"], "value": items().get(arguments["id"], "")}
    if name == "update_item":
        time.sleep(options.write_seconds)
        with lock:
            store({**items(), arguments["id"]: arguments.get("value", "")})
        if options.exit_after_write:
            os._exit(7)
        return {"id": arguments["id"], "value": arguments.get("value", "")}
    if name == "wait":
        stopped.wait(arguments["seconds"])
        return {"waited": arguments["seconds"]}
    stopped.wait()
    return None


def serve(number: Any, params: dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments") or {}
    stopped = cancelled.setdefault(number, threading.Event())
    log("call", tool=name, arguments=arguments)
    result = call(name, arguments, stopped)
    if stopped.is_set():
        log("cancelled", tool=name, arguments=arguments)
        return
    log("done", tool=name, arguments=arguments)
    text = json.dumps(result)
    write(number, {"content": [{"type": "text", "text": text}], "structuredContent": result})


def write(number: Any, result: Any) -> None:
    with lock:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)


def refuse(number: Any) -> None:
    error = {"code": -32601, "message": "Method not found"}
    with lock:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}), flush=True)


def take(message: dict[str, Any]) -> None:
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "notifications/cancelled":
        cancelled.setdefault(params["requestId"], threading.Event()).set()
    elif number is None or options.silent:
        return
    elif method == "initialize":
        info = {"name": "probe", "version": "1"}
        write(number, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "ping":
        write(number, {})
    elif method == "tools/list":
        write(number, {"tools": TOOLS})
    elif method == "tools/call":
        threading.Thread(target=serve, args=(number, params), daemon=True).start()
    else:
        refuse(number)


log("start")
for line in sys.stdin:
    take(json.loads(line))
log("end")

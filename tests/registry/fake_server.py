"""A connector that misbehaves as told: JSON lines on stdin and stdout, nothing else.

usage: fake_server.py STATE_DIR [junk] [flood] [crash-once] [crash-always] [hang] [slow-start SECONDS] [modern]

STATE_DIR collects `calls` (one line per tools/call, with its cancellation), and `tools` overrides the tool names.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

state, options = Path(sys.argv[1]), sys.argv[2:]
state.mkdir(parents=True, exist_ok=True)


def note(word: str) -> None:
    with (state / "calls").open("a") as file:
        file.write(word + "\n")


def tools() -> Any:
    listed = state / "tools"
    if listed.exists():
        return json.loads(listed.read_text())
    texts = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
    names = [
        "get_echo",
        "set_echo",
        "get_slow",
        "set_slow",
        "get_refused",
        "get_failing",
        "set_broken",
        "get_telling",
        "set_telling",
        "get_crash",
        "set_crash",
        "get_ask",
        "get_pid",
    ]
    if "elicitation" in declared:
        names.append("get_confirmed")
    return [{"name": name, "description": f"The tool {name}.", "inputSchema": texts} for name in names]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(number: int, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        declared.update(params.get("capabilities", {}))
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
    if method == "tools/list":
        note("list")
        return {"tools": tools()}
    name = params["name"]
    note(f"call {name}")
    if "flood" in options:
        os.write(2, b"x" * (1 << 20))
    if name.endswith("crash"):
        marker = state / "crashed"
        if "crash-always" in options or not marker.exists():
            marker.touch()
            print("going down", file=sys.stderr, flush=True)
            os._exit(3)
    if name.endswith("failing"):
        return {"content": [{"type": "text", "text": "no such thing"}], "isError": True}
    if name.endswith("telling"):
        return {"content": [{"type": "text", "text": f"the key {os.environ['API_KEY']} is wrong"}], "isError": True}
    if name.endswith("pid"):
        note(f"pid {os.getpid()}")
    if name.endswith("ask"):
        asked[f"q{number}"] = number
        send({"id": f"q{number}", "method": "elicitation/create", "params": {"message": "Which one?"}})
        return None
    if name.endswith("slow"):
        waiting.add(number)
        return None
    if name.endswith("changes"):
        for _ in range(100):
            send({"method": "notifications/tools/list_changed"})
    return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}


print(f"API_KEY is {os.environ.get('API_KEY')}", file=sys.stderr, flush=True)
declared: dict[str, Any] = {}
waiting: set[int] = set()
asked: dict[str, int] = {}
if "slow-start" in options:
    time.sleep(float(options[options.index("slow-start") + 1]))
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if message.get("id") in asked:
        told = json.dumps(message.get("result") or message.get("error"))
        send({"id": asked[message["id"]], "result": {"content": [{"type": "text", "text": told}]}})
    if "junk" in options:
        print('Starting up!\n42\n{}\n{"half": \n\ufeff', flush=True)
    if method == "notifications/cancelled":
        note(f"cancelled {message['params']['requestId'] in waiting}")
    if "id" not in message or method is None or "hang" in options:
        continue
    if method == "server/discover" or (method == "tools/call" and message["params"]["name"] == "get_refused"):
        send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
        continue
    result = answer(message["id"], method, message.get("params") or {})
    if method == "tools/call" and message["params"]["name"] == "set_broken":
        send({"id": message["id"], "error": {"code": -32603, "message": "broke half way"}})
        continue
    if result is not None:
        send({"id": message["id"], "result": result})

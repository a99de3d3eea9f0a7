"""A connector that misbehaves as its first argument says; standard library only, so that it starts fast.

usage: awkward.py BEHAVIOUR [ARGUMENT]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

behaviour, argument = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "")
initialized = locked = False


def send(message: dict[str, Any]) -> None:
    text = json.dumps(message)
    if behaviour == "junk":
        sys.stdout.write('Starting up...\n42\n{}\n[1]\n{"half":\n\n\ufeff')
        sys.stdout.write(text + "\r\n")
    else:
        sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(identity: Any, result: dict[str, Any]) -> None:
    if behaviour == "stderr":
        os.write(2, b"x" * (1 << 20))
    send({"jsonrpc": "2.0", "id": identity, "result": result})


def refuse(identity: Any, code: int = -32601) -> None:
    send({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": "no"}})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def call(identity: Any, params: dict[str, Any]) -> None:
    if behaviour == "crash":
        sys.stderr.write("Traceback: the connector broke\n")
        sys.stderr.flush()
        os._exit(3)
    if behaviour == "garbled":
        sys.stdout.flush()
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d%s}\n' % (identity, bytes.fromhex(argument)))
        sys.stdout.buffer.flush()
        return
    if behaviour == "mute":
        return
    if behaviour == "asks":
        send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "Who?"}})
        reply = json.loads(sys.stdin.readline())
        answer(identity, text(json.dumps(reply.get("result") or reply["error"]["message"])))
        return
    if behaviour == "nags":
        for number in range(100):
            send({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {"message": "Who?"}})
        replies = [json.loads(sys.stdin.readline()) for _ in range(84)]
        answer(identity, text(json.dumps([reply["error"]["message"] for reply in replies])))
        return
    if behaviour == "big":
        answer(identity, text("y" * len(params["arguments"]["text"])))
        return
    answer(identity, text(json.dumps(params["arguments"])))
    if behaviour == "twice":
        answer(identity, text("something else"))


def discover(identity: Any) -> None:
    global locked
    locked = True
    if behaviour == "dies":
        os._exit(1)
    if behaviour == "silent":
        return
    refuse(identity, -32602)


def pages(identity: Any, cursor: str | None) -> None:
    number = int(cursor) if cursor else 0
    page: dict[str, Any] = {"tools": [{"name": f"t{number}", "inputSchema": {"type": "object"}}]}
    if number < 2 or behaviour == "endless":
        page["nextCursor"] = str(min(number + 1, 3))
    answer(identity, page)


def handle(message: dict[str, Any]) -> None:
    identity, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "server/discover":
        discover(identity)
    elif method == "initialize":
        if locked and behaviour == "locks":
            refuse(identity, -32600)
            return
        version = {"old": "2024-11-05", "unknown": "1999-01-01"}.get(behaviour, params["protocolVersion"])
        answer(identity, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": behaviour}})
    elif method == "tools/list":
        pages(identity, params.get("cursor"))
    elif method == "tools/call":
        call(identity, params)
    elif method == "notifications/cancelled" and argument:
        with open(argument, "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic()} {params['requestId']}\n")
    elif identity is not None and method:
        refuse(identity)


def start_family() -> None:
    """Leave a child, and a grandchild that left the session, both deaf to TERM, and write their pids down."""
    deaf = "import signal,time,os;signal.signal(15,1);signal.signal(1,1);os.setsid();"
    child = deaf + "time.sleep(600)"
    note = f"open({argument!r},'a').write(f'{{os.getpid()}}\\n');"
    twice = f"import os,sys\nif os.fork(): sys.exit()\n{deaf}{note}time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", child])
    with open(argument, "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n{process.pid}\n")
    subprocess.run([sys.executable, "-c", twice], check=True)
    while len(Path(argument).read_text(encoding="utf-8").split()) < 3:
        time.sleep(0.01)


if behaviour == "late":
    time.sleep(float(argument))
if behaviour == "exits":
    sys.stderr.write("ImportError: no module named mcp\n")
    sys.exit(4)
if behaviour == "family":
    start_family()
for line in sys.stdin:
    handle(json.loads(line))
if behaviour in ("deaf", "family"):
    time.sleep(600)

"""Clients of other hands do the main job: list the tools, change a ticket, undo it, fail, be cancelled."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop import peers
from tests.stack.harness import TICKET_TASK, Stack

CLIENTS = Path(__file__).parent / "clients"
READ = 'const t = await tickets.ticket.get("T-1"); return [t.status, t.labels, t.comments.length];'
FAILING = 'const t = await tickets.ticket.get("T-1");\nt.status = "closed";\nnull.boom;'
SLOW = "await sleep(20000); return 1;"
SCRIPT: list[dict[str, Any]] = [
    {"tool": "delta_read", "arguments": {"code": READ}},
    {"tool": "delta", "arguments": {"code": TICKET_TASK}},
    {"tool": "delta_read", "arguments": {"code": READ}},
    {"tool": "delta_apply", "arguments": {"undo": {"id_of": 1}}},
    {"tool": "delta_read", "arguments": {"code": READ}},
    {"tool": "delta", "arguments": {"code": FAILING}},
    {"tool": "delta", "arguments": {"code": SLOW}, "cancel_after": 2.0},
    {"tool": "delta_read", "arguments": {"code": READ}},
]


def command(client: str) -> list[str]:
    peers.require()
    if client == "typescript":
        # Bare imports are resolved from the script's own folder upward: the modules lie beside `clients`.
        return [str(peers.NODE), str(CLIENTS / "typescript_client.mjs")]
    return [str(peers.PYTHON), str(CLIENTS / f"{client}_client.py")]


def run(client: str, era: str, target: list[str], cwd: Path) -> dict[str, Any]:
    """Run the script in a client; returns what it saw."""
    line = [*command(client), era, json.dumps(SCRIPT), *target]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert done.returncode == 0, f"{done.stderr[-4000:]}\n{done.stdout[-1000:]}"
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def text_of(answer: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in answer["content"] if block["type"] == "text")


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", ["sdk", "fastmcp", "typescript"])
def test_a_foreign_client_changes_a_ticket_undoes_it_fails_and_cancels(
    client: str, transport: str, era: str, stack: Stack
) -> None:
    command(client)
    target = [stack.url] if transport == "http" else stack.command("stdio")
    seen = run(client, era, target, stack.home)
    before, task, changed, undo, restored, failed, cancelled, after = seen["answers"]

    assert seen["tools"] == ["delta", "delta_read", "delta_apply"]
    if "protocol" in seen:
        assert seen["protocol"] == ("2025-11-25" if era == "legacy" else era)
    assert text_of(task).startswith("Returned: Login broken\nApplied d_")
    assert "2 calls" in text_of(task)
    assert "read back ✓" in text_of(task)
    facts = task["structuredContent"]
    assert facts["returned"] == "Login broken"
    assert (facts["delta"]["state"], facts["delta"]["calls"]) == ("applied", 2)

    assert before["structuredContent"]["returned"] == ["open", ["bug"], 2]
    assert changed["structuredContent"]["returned"] == ["closed", ["bug", "late"], 3]
    assert not undo.get("isError"), text_of(undo)
    assert restored["structuredContent"]["returned"] == ["open", ["bug"], 2]

    assert failed["isError"] is True
    assert "3" in text_of(failed), "the error names the line of the submitted program"
    assert cancelled["cancelled"] is True
    assert after["structuredContent"]["returned"] == ["open", ["bug"], 2], "nothing changed, and the stack still serves"

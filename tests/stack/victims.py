"""Which process is what: actors by the status, zygotes and workers by their place in the process table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.stack.processes import Process, table


def victims(status: dict[str, Any] | None) -> dict[str, int]:
    """Return the living processes of a stack by role: each actor, `zygote`, `sandbox zygote`, one `worker`."""
    if status is None:
        return {}
    processes = {pid: process for pid, process in table().items() if process.state != "Z"}
    found = {each["name"]: each["pid"] for each in status["actors"] if each["pid"] in processes}
    found |= _one("zygote", (p for p in _children(processes, status["pid"]) if _is_zygote(p, found)))
    found |= _one("sandbox zygote", _children(processes, found.get("sandbox")))
    found |= _one("worker", _children(processes, found.get("sandbox zygote")))
    return found


def _children(processes: dict[int, Process], parent: int | None) -> list[Process]:
    return [process for process in processes.values() if process.parent == parent]


def _is_zygote(process: Process, actors: dict[str, int]) -> bool:
    return "delta_supervisor.zygote" in process.command and process.pid not in actors.values()


def _one(role: str, processes: Iterable[Process]) -> dict[str, int]:
    first = next(iter(processes), None)
    return {role: first.pid} if first is not None else {}

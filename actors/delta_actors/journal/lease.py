"""Who applies a delta: boot id, process id and process start time, so that a live owner is never mistaken for a dead
one.
"""

from __future__ import annotations

import os

from delta_actors.runtime.processes import boot_id, stat_of


def own_lease() -> str:
    """Return this process's lease."""
    return f"{boot_id()}:{os.getpid()}:{_started(os.getpid())}"


def owner_lives(lease: str) -> bool:
    """Return whether the process that wrote the lease still runs."""
    boot, _, rest = lease.partition(":")
    pid, _, started = rest.partition(":")
    return boot == boot_id() and pid.isdigit() and started != "" and _started(int(pid)) == started


def _started(pid: int) -> str:
    fields = stat_of(pid)
    return fields[19] if fields and fields[0] not in {"Z", "X"} else ""

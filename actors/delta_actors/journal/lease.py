"""Who applies a delta: boot id, process id and process start time, so that a live owner is never mistaken for a dead
one.
"""

from __future__ import annotations

import os
from pathlib import Path


def own_lease() -> str:
    """Return this process's lease."""
    return f"{_boot()}:{os.getpid()}:{_started(os.getpid())}"


def owner_lives(lease: str) -> bool:
    """Return whether the process that wrote the lease still runs."""
    boot, _, rest = lease.partition(":")
    pid, _, started = rest.partition(":")
    return boot == _boot() and pid.isdigit() and started != "" and _started(int(pid)) == started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command name may hold spaces and brackets: fields are counted from the last bracket. 22nd field: start time.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if fields[0] not in {"Z", "X"} else ""

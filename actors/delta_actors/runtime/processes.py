"""What the kernel says about processes: who is at the other end of a socket, and which run of a number is meant."""

from __future__ import annotations

import errno
import struct
from pathlib import Path
from socket import SO_PEERCRED, SOL_SOCKET
from typing import Protocol

_CREDENTIALS = struct.Struct("3i")


class _Socket(Protocol):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


def peer_of(sock: _Socket) -> tuple[int, int]:
    """Return the process id and the user id of a Unix socket's other end, as of when it connected (unix(7))."""
    process, user, _ = _CREDENTIALS.unpack(sock.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
    return process, user


def boot_id() -> str:
    """Return the kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int:
    """Return when `pid` started, in clock ticks since boot (proc(5), field 22); 0 when there is no such process."""
    fields = stat_of(pid)
    return int(fields[19]) if fields else 0


def stat_of(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, state first and parent second; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            return None
        raise
    # The command name may hold spaces and brackets: fields are counted from the last bracket.
    return text.rpartition(")")[2].split()

"""Runs a command under the process-level restrictions of a systemd unit.

`python -m tests.sandbox.unit_filter UNIT COMMAND...`. What systemd does with libseccomp is done here with the same
library and systemd's own lists: its call filter (an allow-list less a deny-list, with the unit's error number),
namespaces, realtime, address families, personality; beside it no privilege, no capability and another user than root.
Mounts are systemd's alone and left out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LIBRARY: Final = "libseccomp.so.2"
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NOT_EQUAL, _EQUAL, _GREATER, _MASKED_EQUAL = 1, 4, 6, 7
_NAMESPACES: Final = 0x7E020000
"""Every CLONE_NEW* flag of clone(2) but CLONE_NEWTIME, which only unshare and clone3 take."""
_FAMILIES: Final = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
_USER: Final = 1000


class Comparison(ctypes.Structure):
    """libseccomp's `struct scmp_arg_cmp`."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def settings(unit: Path) -> dict[str, list[str]]:
    """Return the unit's settings, each with all its values in order."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if match := re.match(r"([A-Za-z]+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def members(names: Iterable[str]) -> set[str]:
    """Return the calls behind names of calls and of systemd's groups."""
    calls: set[str] = set()
    for name in names:
        if not name.startswith("@"):
            calls.add(name)
            continue
        told = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
        lines = [line.strip() for line in told.stdout.splitlines()[1:]]
        calls |= members(line for line in lines if line and not line.startswith("#"))
    return calls


def allowed_calls(filters: Iterable[str]) -> set[str]:
    """Return what a unit's `SystemCallFilter=` lines allow: the first is an allow-list, `~` takes away."""
    calls = members(["@default"])
    for line in filters:
        if line.startswith("~"):
            calls -= members(line[1:].split())
        else:
            calls |= members(line.split())
    return calls


class Filter:
    """One seccomp filter under construction."""

    def __init__(self, default: int) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(default)))

    def rule(self, action: int, name: str, *comparisons: Comparison) -> None:
        """Add a rule; a call that this machine does not have is passed over."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return
        array = (Comparison * max(1, len(comparisons)))(*comparisons)
        failed = self._library.seccomp_rule_add_array(
            self._context, ctypes.c_uint32(action), number, len(comparisons), array
        )
        if failed and failed != -errno.EACCES:  # the rule says what the default does
            raise OSError(-failed, f"seccomp rule for {name}")

    def load(self) -> None:
        """Install the filter in this process."""
        if failed := self._library.seccomp_load(self._context):
            raise OSError(-failed, "seccomp_load")


def restrict_calls(unit: dict[str, list[str]]) -> None:
    """Install the unit's filters, the one over all calls last: it refuses nothing that installing needs."""
    refused = _ERRNO | getattr(errno, unit["SystemCallErrorNumber"][0])
    denied = _ERRNO | errno.EPERM
    filters: list[Filter] = []
    if unit["RestrictNamespaces"] == ["yes"]:
        namespaces = Filter(_ALLOW)
        namespaces.rule(_ERRNO | errno.ENOSYS, "clone3")
        for name in ("unshare", "setns"):
            namespaces.rule(denied, name)
        for flag in (1 << bit for bit in range(32) if _NAMESPACES >> bit & 1):
            namespaces.rule(denied, "clone", Comparison(0, _MASKED_EQUAL, flag, flag))
        filters.append(namespaces)
    if unit["RestrictRealtime"] == ["yes"]:
        realtime = Filter(_ALLOW)
        realtime.rule(denied, "sched_setscheduler", Comparison(1, _GREATER, 0, 0))
        filters.append(realtime)
    if unit["LockPersonality"] == ["yes"]:
        personality = Filter(_ALLOW)
        personality.rule(denied, "personality", Comparison(0, _NOT_EQUAL, 0xFFFFFFFF, 0))
        filters.append(personality)
    families = Filter(_ALLOW)
    known = {_FAMILIES[name] for name in unit["RestrictAddressFamilies"][0].split()}
    for family in sorted(set(range(46)) - known):
        families.rule(_ERRNO | errno.EAFNOSUPPORT, "socket", Comparison(0, _EQUAL, family, 0))
    filters.append(families)
    calls = Filter(refused)
    for name in sorted(allowed_calls(unit["SystemCallFilter"])):
        calls.rule(_ALLOW, name)
    filters.append(calls)
    for each in filters:
        each.load()


def become_user() -> None:
    """Be another user than root, as the unit's `User=` and `PrivateUsers=` make the stack; files stay as readable.

    Raises `OSError` where user namespaces are not to be had.
    """
    user, group = os.getuid(), os.getgid()
    if user:
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(0x10000000):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{_USER} {group} 1")
    Path("/proc/self/uid_map").write_text(f"{_USER} {user} 1")


def drop_capabilities() -> None:
    """Empty the bounding set and all others, and gain no privilege again."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        library.prctl(24, ctypes.c_ulong(capability), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    library.capset(header, (ctypes.c_uint32 * 6)())
    if library.prctl(38, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "no new privileges")


def main(unit: Path, command: list[str]) -> None:
    """Restrict this process and become `command`."""
    told = settings(unit)
    assert told["NoNewPrivileges"] == ["yes"]
    assert told["CapabilityBoundingSet"] == [""]
    become_user()
    drop_capabilities()
    restrict_calls(told)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

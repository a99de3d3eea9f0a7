"""Taking every power from a worker before it sees a program: identity, limits, no-new-privileges, Landlock, seccomp.

By ctypes alone, so that nothing else is loaded (spec/sandbox 3). Linux on x86_64 and aarch64; elsewhere the WebAssembly
boundary and the limits that exist stand alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from typing import Final

NOBODY: Final = 65534
DATA_BYTES: Final = 300 << 20
"""Beside the guest's own memory: RLIMIT_AS cannot be used, wasmtime reserves 4 GiB of address space."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_ALLOW, _KILL, _ERRNO_EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_PROT_EXEC = 4
_X32 = 0x40000000

# What Python, wasmtime and a socket need after the fork; the two memory calls only without PROT_EXEC.
# fmt: off
_SYSCALLS: Final = {
    "x86_64": (
        0xC000003E,
        (0, 1, 3, 7, 11, 12, 13, 14, 15, 19, 20, 24, 25, 28, 39, 44, 45, 46, 47, 48, 60, 98, 131, 186, 202, 219, 228,
         230, 231, 271, 318, 324, 334),
        (9, 10),
    ),
    "aarch64": (
        0xC00000B7,
        (57, 63, 64, 65, 66, 73, 93, 94, 98, 113, 115, 124, 128, 132, 134, 135, 139, 165, 172, 178, 206, 207, 210, 211,
         212, 214, 215, 216, 233, 278, 283, 293),
        (222, 226),
    ),
}
# fmt: on


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))


_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def drop_identity() -> None:
    """Become nobody when root, keeping no group."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def limit_resources(cpu: float, data: int = DATA_BYTES) -> None:
    """Set the hard limits. `cpu` seconds of CPU time end the process by SIGPROF, to the millisecond."""
    whole = int(cpu) + 2
    for which, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 4),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_DATA, data),
        (resource.RLIMIT_CPU, whole),
    ):
        hard = resource.getrlimit(which)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu)


def die_with_parent(parent: int) -> None:
    """Ask to be killed when the zygote ends; end at once if it already has."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_DUMPABLE, 0)
    if os.getppid() != parent:
        os._exit(1)


def forbid_privileges() -> None:
    """Set no-new-privileges, which Landlock and seccomp need and every child inherits."""
    if sys.platform == "linux":
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def restrict_files() -> int:
    """Deny files, TCP ports, signals and abstract sockets to the outside. Returns Landlock's ABI, 0 without it."""
    if sys.platform != "linux":
        return 0
    abi = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if abi <= 0:
        return 0
    files = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    rules = ctypes.create_string_buffer(struct.pack("<QQQ", files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0))
    ruleset = _libc.syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    failed = _libc.syscall(_LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    code = ctypes.get_errno()
    os.close(ruleset)
    if failed:
        raise OSError(code, "landlock_restrict_self")
    return int(abi)


def filter_program(default: int = _KILL) -> bytes:
    """Return the BPF program: the listed calls are allowed, executable memory is refused, all else is `default`."""
    audit, allowed, memory = _SYSCALLS[platform.machine()]
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if platform.machine() == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in allowed:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for number in memory:
        code += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, 32),
            (_ANY_BIT, 0, 1, _PROT_EXEC),
            (_RETURN, 0, 0, _ERRNO_EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    code.append((_RETURN, 0, 0, default))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def filter_calls() -> bool:
    """Install the system-call filter. Returns False only where the platform has none; raises `OSError` when refused."""
    if sys.platform != "linux" or platform.machine() not in _SYSCALLS:
        return False
    raw = filter_program()
    buffer = ctypes.create_string_buffer(raw, len(raw))
    program = _Program(len(raw) // 8, ctypes.addressof(buffer))
    if _libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(program), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {errno.errorcode.get(code, str(code))}")
    return True

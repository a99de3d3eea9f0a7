"""One stack per state directory: an flock that the kernel gives back at any death, with words on who holds it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from delta_protocol.errors import Refused

LOCK_NAME = "lock"


class Owner(msgspec.Struct, frozen=True):
    """Who holds a state directory. `since` is seconds since the epoch."""

    pid: int
    since: float
    command: str = ""

    def describe(self) -> str:
        """Return the owner in words."""
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid}, since {started}"


class StateDirLocked(Refused):
    """Another stack owns the state directory; `detail` has its `pid` and `since`."""

    def __init__(self, state_dir: Path, owner: Owner | None) -> None:
        who = owner.describe() if owner else "a stack that is just starting"
        detail: dict[str, Any] = {"pid": owner.pid, "since": owner.since} if owner else {}
        super().__init__(
            f"the state directory {state_dir} is in use by {who}; stop it with `delta-supervisor down` "
            "or choose another place with --state-dir",
            **detail,
        )


class StateLock:
    """The held lock; released by `release`, or by the kernel when the process ends however it ends."""

    def __init__(self, descriptor: int, file: Path) -> None:
        self._descriptor = descriptor
        self._file = file

    @property
    def is_ours(self) -> bool:
        """Whether the state directory still holds the file that is locked: nobody put another in its place."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._file.stat())
        except OSError:
            return False

    @classmethod
    def acquire(cls, state_dir: Path, command: str) -> StateLock:
        """Take the lock of `state_dir` or raise `StateDirLocked`; waits for nothing."""
        descriptor = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StateDirLocked(state_dir, read_owner(state_dir)) from None
        owner = Owner(os.getpid(), time.time(), command)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(owner), 0)
        return cls(descriptor, state_dir / LOCK_NAME)

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def read_owner(state_dir: Path) -> Owner | None:
    """Return what the lock file says; None while its owner has not written yet, or nobody ever did."""
    try:
        return msgspec.json.decode((state_dir / LOCK_NAME).read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None


def is_held(state_dir: Path) -> bool:
    """Return whether a living stack holds the lock of `state_dir`."""
    try:
        descriptor = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

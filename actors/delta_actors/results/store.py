"""The folder of stored values: one file each, opened relative to a directory descriptor (acceptance 77)."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delta_protocol.errors import Invalid, LimitExceeded, NotFound
from delta_protocol.wire.results import StoredResult

ID = re.compile(r"r_[a-z2-7]{12}")
"""What an id of a stored result looks like; nothing else is ever opened."""

_FOLDER = re.compile(r"[0-9a-f]{32}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY = ".new"


@dataclass(frozen=True, slots=True)
class _Kept:
    folder: str
    name: str
    size: int
    stored: float


class ResultStore:
    """Values by principal and id. `max_bytes` bounds all files together, `max_age` (seconds) each one's life.

    The oldest give way first. Not for use from several threads at once.
    """

    def __init__(self, path: Path, *, max_bytes: int, max_age: float) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = os.open(path, _DIRECTORY)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._kept = self._scan()
        self._total = sum(kept.size for kept in self._kept)

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)

    def statistics(self) -> dict[str, Any]:
        """Return how many values and bytes are kept."""
        return {"results": len(self._kept), "bytes": self._total}

    def save(self, principal: str, value: bytes) -> StoredResult:
        """Keep `value` and return its id. Raises `LimitExceeded` for what alone is over the bound."""
        if len(value) > self._max_bytes:
            raise LimitExceeded(
                f"a result of {len(value)} bytes is more than the store may hold ({self._max_bytes})",
                limit="results_bytes",
            )
        self._make_room(len(value))
        folder, name = _folder_of(principal), _new_id()
        directory = self._open_folder(folder, create=True)
        try:
            _write_whole(directory, name, value)
        finally:
            os.close(directory)
        self._kept.append(_Kept(folder, name, len(value), time.time()))
        self._total += len(value)
        return StoredResult(name)

    def load(self, principal: str, result: str) -> bytes:
        """Return a value of this principal. Raises `Invalid` for what is no id, `NotFound` for what is not kept."""
        if ID.fullmatch(result) is None:
            raise Invalid(f"{result!r} is no result id: r_ and 12 letters or digits from a-z and 2-7")
        gone = NotFound(f"there is no result {result}: it expired, or was never stored for you", id=result)
        try:
            directory = self._open_folder(_folder_of(principal), create=False)
        except OSError:
            raise gone from None
        try:
            descriptor = os.open(result, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except OSError:
            raise gone from None
        finally:
            os.close(directory)
        with os.fdopen(descriptor, "rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > self._max_age:
                raise gone
            return file.read()

    def _make_room(self, size: int) -> None:
        """Remove what is too old, then the oldest until `size` more bytes fit."""
        oldest_allowed = time.time() - self._max_age
        while self._kept and (self._kept[0].stored < oldest_allowed or self._total + size > self._max_bytes):
            oldest = self._kept.pop(0)
            self._total -= oldest.size
            self._remove(oldest)

    def _remove(self, kept: _Kept) -> None:
        try:
            directory = self._open_folder(kept.folder, create=False)
        except FileNotFoundError:
            return
        try:
            os.unlink(kept.name, dir_fd=directory)
        except FileNotFoundError:
            return
        finally:
            os.close(directory)

    def _open_folder(self, folder: str, *, create: bool) -> int:
        if create:
            try:
                os.mkdir(folder, mode=0o700, dir_fd=self._root)
            except FileExistsError:
                pass
        return os.open(folder, _DIRECTORY, dir_fd=self._root)

    def _scan(self) -> list[_Kept]:
        """Return what an earlier run kept, oldest first; removes half-written files."""
        kept: list[_Kept] = []
        for folder in os.listdir(self._root):
            if _FOLDER.fullmatch(folder) is None:
                continue
            directory = self._open_folder(folder, create=False)
            try:
                for name in os.listdir(directory):
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if ID.fullmatch(name) and stat.S_ISREG(status.st_mode):
                        kept.append(_Kept(folder, name, status.st_size, status.st_mtime))
                    elif name.endswith(_TEMPORARY):
                        os.unlink(name, dir_fd=directory)
            finally:
                os.close(directory)
        return sorted(kept, key=lambda one: one.stored)


def _write_whole(directory: int, name: str, value: bytes) -> None:
    """Write under another name first: a crash leaves no half value behind an id."""
    temporary = name + _TEMPORARY
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(value)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def _folder_of(principal: str) -> str:
    return hashlib.sha256(principal.encode()).hexdigest()[:32]


def _new_id() -> str:
    return "r_" + base64.b32encode(secrets.token_bytes(8)).decode().lower()[:12]

"""Reading below one directory, and nowhere else.

Every path is walked component by component from the root's descriptor with `O_NOFOLLOW`, so that neither `..`, an
absolute path nor a symbolic link (also one put in place between two steps) leads outside.
Links are listed, never followed.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delta_protocol.errors import Invalid, LimitExceeded, NotFound, Refused

MAX_READ = 4 << 20
MAX_ENTRIES = 2_000
MAX_FOUND = 200
MAX_VISITED = 50_000
MAX_DEPTH = 32

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Jail:
    """The directory that may be read. Paths are relative to it and use `/`."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Forget the directory."""
        os.close(self._root)

    def list_directory(self, path: str) -> list[dict[str, Any]]:
        """Return `{name, kind, size}` of each entry, sorted by name; kind is `file`, `directory`, `link` or `other`."""
        directory = self._directory(_parts(path))
        try:
            entries = _entries(directory)
        finally:
            os.close(directory)
        if len(entries) > MAX_ENTRIES:
            raise LimitExceeded(
                f"{path or '.'} has {len(entries)} entries; at most {MAX_ENTRIES} are listed", limit="entries"
            )
        return entries

    def read_file(self, path: str) -> str:
        """Return the text of a file. Raises `Invalid` (no UTF-8 text), `LimitExceeded` (too long)."""
        parts = _parts(path)
        if not parts:
            raise Invalid("path names the directory itself; give the path of a file")
        directory = self._directory(parts[:-1])
        try:
            return _read(directory, parts[-1], path)
        finally:
            os.close(directory)

    def search(self, pattern: str, path: str = "", text: str | None = None) -> tuple[list[str], bool]:
        """Return the files below `path` whose name matches the glob `pattern` and, if given, that contain `text`.

        The second value says whether there may be more (a bound was reached).
        """
        found: list[str] = []
        directory = self._directory(_parts(path))
        prefix = "".join(f"{part}/" for part in _parts(path))
        for visited, (parent, name, where) in enumerate(_walk(directory, prefix, MAX_DEPTH)):
            if visited >= MAX_VISITED or len(found) >= MAX_FOUND:
                return sorted(found), True
            if fnmatch.fnmatch(name, pattern) and (text is None or _contains(parent, name, where, text)):
                found.append(where)
        return sorted(found), False

    def _directory(self, parts: list[str]) -> int:
        current = os.dup(self._root)
        walked = ""
        for part in parts:
            walked += part
            try:
                following = os.open(part, _DIRECTORY, dir_fd=current)
            except OSError as error:
                raise _typed(error, walked, current, part) from None
            finally:
                os.close(current)
            current = following
            walked += "/"
        return current


def _parts(path: str) -> list[str]:
    if "\0" in path or path.startswith("/"):
        raise Refused(f"{path!r}: paths are relative to the shared directory")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"{path!r} leads outside the shared directory")
    return parts


def _entries(directory: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    with os.scandir(directory) as scan:
        for entry in scan:
            status = entry.stat(follow_symlinks=False)
            kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}.get(
                stat.S_IFMT(status.st_mode), "other"
            )
            entries.append({"name": entry.name, "kind": kind, "size": status.st_size if kind == "file" else None})
    return sorted(entries, key=lambda entry: str(entry["name"]))


def _read(directory: int, name: str, path: str) -> str:
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        raise _typed(error, path, directory, name) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Invalid(f"{path} is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_READ + 1)
    if len(data) > MAX_READ:
        raise LimitExceeded(f"{path} has {status.st_size} bytes; at most {MAX_READ} are read", limit="file size")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is no UTF-8 text") from None


def _contains(directory: int, name: str, path: str, text: str) -> bool:
    try:
        return text in _read(directory, name, path)
    except (Invalid, LimitExceeded, NotFound, Refused):
        return False


def _walk(directory: int, prefix: str, depth: int) -> Iterator[tuple[int, str, str]]:
    """Yield (parent descriptor, name, path) of every regular file; closes `directory` at the end."""
    try:
        for entry in _entries(directory):
            name = str(entry["name"])
            if entry["kind"] == "file":
                yield directory, name, prefix + name
            elif entry["kind"] == "directory" and depth:
                try:
                    below = os.open(name, _DIRECTORY, dir_fd=directory)
                except OSError:
                    continue
                yield from _walk(below, f"{prefix}{name}/", depth - 1)
    finally:
        os.close(directory)


def _typed(error: OSError, path: str, directory: int, name: str) -> NotFound | Refused | Invalid:
    try:
        if stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode):
            return Refused(f"{path} is a symbolic link; links are not followed")
    except OSError:
        return NotFound(f"there is no {path}")
    if isinstance(error, NotADirectoryError):
        return Invalid(f"{path} is no directory")
    if isinstance(error, PermissionError):
        return Refused(f"{path} may not be read")
    return NotFound(f"{path} cannot be read: {error.strerror}")

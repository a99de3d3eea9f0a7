"""A server for the files below one directory, and no others. Usage: filesystem_server.py DIRECTORY, over stdio.

Every path is walked from the directory's own descriptor, one name at a time and following no link: neither `..`, nor an
absolute path, nor a symbolic link, not even one put in place meanwhile, leads outside.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from delta_actors.mcp import DeltaServer, ResultPolicy
from delta_protocol.errors import Invalid, NotFound, Refused

MOST = 1 << 20
"""Bytes of a file that are read or written."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Jail:
    """The directory `root`. Paths are relative to it, with `/` between names."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextmanager
    def open(self, path: str, flags: int) -> Iterator[int]:
        """Give the descriptor of what `path` names. Raises `NotFound`, `Refused` for a link or a way outside."""
        names = [name for name in path.split("/") if name not in ("", ".")]
        if path.startswith("/") or ".." in names or "\0" in path:
            raise Refused(f"{path} leads outside")
        opened = [os.dup(self._root)]
        try:
            for number, name in enumerate(names):
                last = number == len(names) - 1
                wanted = (flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC) if last else _FOLDER
                opened.append(os.open(name, wanted, 0o666, dir_fd=opened[-1]))
            yield opened[-1]
        except FileNotFoundError:
            raise NotFound(f"there is no {path}", what=path) from None
        except OSError as error:
            raise Refused(f"{path}: {error.strerror} (links are not followed)") from None
        finally:
            for descriptor in opened:
                os.close(descriptor)


def _regular(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Refused(f"{path} is no file")


def build(root: str) -> DeltaServer:
    """Return the server."""
    server = DeltaServer("files", "1.0", results=ResultPolicy(max_tokens=2000))
    jail = Jail(root)

    @server.tool(read_only=True)
    def list_dir(path: str = ".") -> list[str]:
        """List the names in a directory; those of directories end in a slash."""
        with jail.open(path, os.O_RDONLY | os.O_DIRECTORY) as folder, os.scandir(folder) as entries:
            return sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)

    @server.tool(read_only=True)
    def read_file(path: str) -> str:
        """Return the text of a file."""
        with jail.open(path, os.O_RDONLY) as file:
            _regular(file, path)
            data = os.read(file, MOST + 1)
        if len(data) > MOST:
            raise Invalid(f"{path} is longer than {MOST} bytes", what="path")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Invalid(f"{path} is no UTF-8 text", what="path") from None

    @server.tool(destructive=True, idempotent=True)
    def write_file(path: str, text: str) -> str:
        """Write a file in place of what it held."""
        data = text.encode()
        if len(data) > MOST:
            raise Invalid(f"the text is longer than {MOST} bytes", what="text")
        with jail.open(path, os.O_WRONLY | os.O_CREAT) as file:
            _regular(file, path)
            os.ftruncate(file, 0)
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
        return f"{len(data)} bytes written to {path}"

    return server


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build(sys.argv[1]).run()

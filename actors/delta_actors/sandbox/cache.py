"""The directory with the compiled guest: executable code, of which nothing is loaded but what was written by us, whole.

The file's name ends with the hash of its content. A file that does not hold what its name says, that others may write
or that belongs to somebody else is removed, and the guest is compiled again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
from pathlib import Path
from typing import Final

import trio

from delta_actors.sandbox.guest import cache_prefix
from delta_protocol.errors import Internal

_COMPILE_TIMEOUT: Final = 120.0
_LOG = logging.getLogger("delta.sandbox")


async def compiled_guest(directory: Path) -> Path:
    """Return the compiled guest in `directory`, compiling it in a separate process where there is no sound one.

    Raises `Internal` when the directory is not private or the compilation fails.
    """
    found = await trio.to_thread.run_sync(_sound, directory)
    if found is not None:
        return found
    command = [sys.executable, "-m", "delta_actors.sandbox.compile", str(directory)]
    with trio.fail_after(_COMPILE_TIMEOUT):
        result = await trio.run_process(command, capture_stderr=True, check=False)
    found = await trio.to_thread.run_sync(_sound, directory)
    if result.returncode or found is None:
        raise Internal(f"the guest was not compiled: {result.stderr.decode('utf-8', 'replace')[-500:]}")
    return found


def discard(module: Path, reason: str) -> None:
    """Remove a compiled guest that turned out to be of no use, and say so."""
    _LOG.error("the compiled guest %s is discarded and made anew: %s", module, reason)
    module.unlink(missing_ok=True)


def _sound(directory: Path) -> Path | None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if status.st_mode & 0o022 or status.st_uid != os.getuid():
        raise Internal(
            f"{directory} may be written by others; a compiled guest in it would not be safe to load. "
            f"Make it yours alone: chown {os.getuid()} {directory}; chmod 700 {directory}"
        )
    kept: Path | None = None
    for file in sorted(directory.glob(f"{cache_prefix()}*.cwasm")):
        fault = _fault(file)
        if fault:
            discard(file, fault)
        else:
            kept = file
    return kept


def _fault(file: Path) -> str:
    """Return why `file` must not be loaded, or nothing."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    with open(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "it is no file"
        if status.st_uid != os.getuid():
            return f"it belongs to user {status.st_uid}"
        if status.st_mode & 0o022:
            return f"others may write it (mode {stat.S_IMODE(status.st_mode):o})"
        if hashlib.file_digest(opened, "sha256").hexdigest() != file.stem[len(cache_prefix()) :]:
            return "its content is not what was compiled"
    return ""

"""The key that seals session ids: made once per state directory, so that sessions outlive restarts."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from delta_protocol.errors import Invalid

SIZE = 32


def load_key(path: Path) -> bytes:
    """Return the key in `path`, made now if there is none. Raises `Invalid` for a file that is no key.

    The file appears whole or not at all, with mode 0600.
    """
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = _make(path)
    if len(key) != SIZE:
        raise Invalid(f"{path} holds no key of {SIZE} bytes; remove it to get a new one (open sessions end)")
    return key


def _make(path: Path) -> bytes:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(secrets.token_bytes(SIZE))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return path.read_bytes()

"""Where things lie: configuration file, state directory (the stack's identity), runtime directory for sockets.

Light on purpose: the relay needs it before anything else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from delta_protocol.errors import Refused

LONGEST_SOCKET_PATH = 107
"""Bytes that fit into `sockaddr_un.sun_path` beside the closing NUL (unix(7))."""
_LONGEST_NAME = len("/transport.sock")


def config_file(environment: Mapping[str, str]) -> Path:
    """Return the configuration file that is read when none is named. Never one of the working directory: a cloned
    repository must not decide which programs are started."""
    base = environment.get("XDG_CONFIG_HOME")
    folder = Path(base) / "delta" if base else platformdirs.user_config_path("delta")
    return folder / "delta.toml"


def default_state_dir() -> Path:
    """Return the state directory that is used when none is named."""
    return platformdirs.user_state_path("delta")


def make_private(folder: Path) -> Path:
    """Make `folder` with mode 0700, or check that it is ours and close it to others. Raises `Refused`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid():
            raise Refused(f"{folder} belongs to another user; choose another place with --state-dir")
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise Refused(f"cannot use {folder}: {error.strerror}; choose another place with --state-dir") from None
    return folder


def runtime_dir(state_dir: Path) -> Path:
    """Return where the sockets of `state_dir`'s stack lie: the same for every process that asks.

    In the state directory itself where paths stay short enough, else under XDG_RUNTIME_DIR or the temporary folder.
    """
    state_dir = state_dir.absolute()
    own = state_dir / "run"
    if len(os.fsencode(own)) + _LONGEST_NAME <= LONGEST_SOCKET_PATH:
        return own
    digest = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"delta-{os.geteuid()}-{digest}"

"""The flags that say which stack is meant, and the exit codes. Shared by click's commands and by the relay, which has
no time for click.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from delta_protocol.errors import DeltaError, ProgramFailed, Refused
from delta_supervisor.control.client import NoStack
from delta_supervisor.load import ConfigurationError, Flags

DONE, PROGRAM_ERROR, REFUSED, PARTIAL, WAITING = 0, 1, 2, 3, 4
USAGE, INTERNAL, CONFIGURATION = 64, 70, 78

SETTINGS = {"--host": "http.host", "--port": "http.port", "--mode": "mode"}
"""Flags that are short for one setting."""

AUTO = "--auto"
READY_FD = "--ready-fd"
READY = b"ready"
"""What a stack that a relay started writes to `--ready-fd` when its sockets are bound."""


def parse_flags(arguments: Sequence[str]) -> Flags | None:
    """Return the flags of `stdio`, or None for anything that needs words (`--help`, a mistake)."""
    config: list[Path] = []
    settings: list[tuple[str, str]] = []
    state_dir: Path | None = None
    rest = list(arguments)
    while rest:
        name, joined, value = rest.pop(0).partition("=")
        if name == "--no-http" and not joined:
            settings.append(("http.enabled", "false"))
            continue
        if not joined:
            if not rest:
                return None
            value = rest.pop(0)
        if name == "--config":
            config.append(Path(value))
        elif name == "--state-dir":
            state_dir = Path(value)
        elif name in SETTINGS:
            settings.append((SETTINGS[name], value))
        elif name == "--set" and "=" in value:
            key, _, text = value.partition("=")
            settings.append((key, text))
        else:
            return None
    return Flags(tuple(config), state_dir, tuple(settings))


def parse_auto(arguments: Sequence[str]) -> tuple[Flags, int] | None:
    """Return the flags and the readiness descriptor of a stack that a relay started; None for anything else."""
    if list(arguments[:2]) != ["up", AUTO] or READY_FD not in arguments[-2:-1] or not arguments[-1].isdigit():
        return None
    flags = parse_flags(arguments[2:-2])
    return None if flags is None else (flags, int(arguments[-1]))


def arguments_of(flags: Flags) -> list[str]:
    """Return the command line that means `flags`: paths absolute, for whoever has another working directory."""
    arguments: list[str] = []
    for file in flags.config:
        arguments += ["--config", str(file.absolute())]
    if flags.state_dir is not None:
        arguments += ["--state-dir", str(flags.state_dir.absolute())]
    for key, value in flags.settings:
        arguments += ["--set", f"{key}={value}"]
    return arguments


def command_line(flags: Flags, *words: str) -> str:
    """Return a command to type that means the same stack."""
    where = [] if flags.state_dir is None else ["--state-dir", str(flags.state_dir)]
    return shlex.join(["delta-supervisor", *words, *where])


def exit_code(error: BaseException) -> int:
    """Return the exit code that an error ends a command with."""
    if isinstance(error, ConfigurationError) or (isinstance(error, DeltaError) and "differing" in error.detail):
        return CONFIGURATION
    if isinstance(error, Refused | NoStack):
        return REFUSED
    if isinstance(error, ProgramFailed):
        return PROGRAM_ERROR
    if isinstance(error, DeltaError) and error.code in ("invalid", "not_found", "conflict"):
        return REFUSED
    return INTERNAL

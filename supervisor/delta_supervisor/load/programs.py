"""Where connectors' programs are: on PATH, else on that of the person's login shell.

A client with windows is started by the desktop, whose PATH lacks what shells are set up to find; so does then a stack
that the client starts (acceptance 39).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cached_property

import msgspec

from delta_protocol.config import ConnectorConfig
from delta_supervisor.load.expand import Missing
from delta_supervisor.load.shape import nearest

_PATIENCE = 5.0
"""Seconds for a login shell to say its PATH."""
_FRAME = "==delta=="
"""Tells the PATH from what else a shell prints when it starts."""


class Programs:
    """Looks programs up in one environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def found(self, path: str, connector: ConnectorConfig) -> ConnectorConfig:
        """Return the connector, with the PATH that its program needs. Raises `Missing` where there is no program."""
        if connector.cwd is not None and not os.path.isdir(connector.cwd):
            raise Missing(f"`{path}.cwd` is {connector.cwd}, which is no folder")
        command = connector.command
        if command is None:
            return connector
        search = connector.env.get("PATH", self._environment.get("PATH", os.defpath))
        if os.sep in command and not os.path.isabs(command) and connector.cwd:
            command = os.path.join(connector.cwd, command)
        if shutil.which(command, path=search) is not None:
            return connector
        if os.sep in command:
            where = "does not exist or cannot be run"
        elif "PATH" not in connector.env and self._wider and shutil.which(command, path=self._wider) is not None:
            return msgspec.structs.replace(connector, env={**connector.env, "PATH": self._wider})
        else:
            near = nearest(command, _programs(search))
            hint = near if near.startswith(" (did") else ""
            where = f"is on no folder of PATH ({search}){hint}"
        raise Missing(f"`{path}.command`: the program {command!r} {where}; install it or give its full path")

    @cached_property
    def _wider(self) -> str:
        """The PATH of the login shell, empty where it does not tell."""
        shell = self._environment.get("SHELL", "")
        if not os.path.isabs(shell):
            return ""
        command = [shell, "-ilc", f'printf "{_FRAME}%s{_FRAME}" "$PATH"']
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            # A session of its own, so that an interactive shell takes no terminal away.
            said = subprocess.run(
                command,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
                start_new_session=True,
            )
            _, _, framed = said.stdout.decode(errors="replace").partition(_FRAME)
            return framed.partition(_FRAME)[0]
        return ""


def _programs(search: str) -> list[str]:
    names: set[str] = set()
    for folder in search.split(os.pathsep):
        try:
            names.update(entry.name for entry in os.scandir(folder or "."))
        except OSError:
            continue
    return list(names)

"""Variables and secrets in a connector's text fields.

`${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${workspaceFolder}`, `${userHome}`; a leading `~`; whole values `env:NAME`
and `file:PATH` for secrets in `env` and `headers`. `$${` stands for a literal `${`.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from pathlib import Path

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Missing(Exception):
    """A field refers to what is not there; the text says what and what to do."""


class Expander:
    """Expands against one environment and one pair of folders.

    `workspace` is the working directory that the stack was started in, `base` the folder of the configuration file.
    """

    def __init__(self, environment: Mapping[str, str], workspace: Path, base: Path) -> None:
        self._environment = environment
        self._workspace = workspace
        self._base = base
        self._home = environment.get("HOME") or os.path.expanduser("~")

    def text(self, text: str, *, field: str) -> str:
        """Return `text` with its variables replaced. Raises `Missing`, naming `field` and the variable."""
        return _VARIABLE.sub(lambda match: self._replace(match, field), text)

    def path(self, text: str, *, field: str) -> str:
        """Like `text`, and a leading `~` is the user's home."""
        expanded = self.text(text, field=field)
        if expanded == "~" or expanded.startswith("~/"):
            return self._home + expanded[1:]
        return expanded

    def secret(self, text: str, *, field: str) -> str:
        """Return the value behind `env:NAME` or `file:PATH`, else the expanded text. Raises `Missing`."""
        if text.startswith("env:") and _NAME.match(text[4:]):
            return self._lookup(text[4:], None, field)
        if text.startswith("file:"):
            return self._read(self.path(text[5:], field=field), field)
        return self.path(text, field=field)

    def folder(self, text: str, *, field: str) -> str:
        """Return `text` as an absolute path; relative ones start at the configuration file's folder."""
        return str((self._base / self.path(text, field=field)).resolve())

    def _replace(self, match: re.Match[str], field: str) -> str:
        if match[1]:
            return match[1]
        inner = match[2]
        if inner == "workspaceFolder":
            return str(self._workspace)
        if inner == "userHome":
            return self._home
        name, separator, default = inner.partition(":-")
        name = name.removeprefix("env:")
        if not _NAME.match(name):
            raise Missing(
                f"`{field}` holds ${{{inner}}}, which is no variable; write $${{{inner}}} to mean it literally"
            )
        return self._lookup(name, default if separator else None, field)

    def _lookup(self, name: str, default: str | None, field: str) -> str:
        value = self._environment.get(name)
        if default is not None:
            return value or default
        if value is None:
            raise Missing(
                f"`{field}` needs the environment variable {name}, which is not set; set it, "
                f"or give a default with ${{{name}:-...}}"
            )
        return value

    def _read(self, path: str, field: str) -> str:
        file = self._base / path
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise Missing(f"`{field}` reads its secret from {file}, which cannot be read: {reason}") from None

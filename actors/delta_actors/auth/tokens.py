"""Static bearer tokens: made here, shown once, kept as hashes.

A token carries 256 random bits, so a plain sha256 is as good as a slow password hash: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from pathlib import Path

import msgspec

from delta_protocol.errors import Invalid, NotFound
from delta_protocol.wire.auth import TokenInfo

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
"""What a token's name, and so its principal, may look like."""

_PREFIX = "delta_"
_VERSION = 1


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    digest: str
    created: float
    scopes: tuple[str, ...] = ()


class _Content(msgspec.Struct, frozen=True):
    version: int = _VERSION
    tokens: tuple[_Entry, ...] = ()


class TokenFile:
    """The tokens of one stack, in one file of mode 0600 that is replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = _read(path)

    def find(self, token: str) -> TokenInfo | None:
        """Return whose token this is. Compares with every hash in constant time."""
        digest = _digest(token)
        found: _Entry | None = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        return None if found is None else TokenInfo(found.name, found.created, found.scopes)

    def known(self) -> tuple[TokenInfo, ...]:
        """Return the tokens in the order in which they were made."""
        return tuple(TokenInfo(entry.name, entry.created, entry.scopes) for entry in self._entries)

    def add(self, name: str, scopes: tuple[str, ...]) -> str:
        """Make a token for `name`, which may have several. Raises `Invalid` for a name of another form."""
        if NAME.fullmatch(name) is None:
            raise Invalid(f"{name!r} is no name for a token: letters, digits and _ . @ -, at most 64")
        token = _PREFIX + secrets.token_urlsafe(32)
        self._replace((*self._entries, _Entry(name, _digest(token), time.time(), scopes)))
        return token

    def revoke(self, name: str) -> None:
        """Forget every token of `name`. Raises `NotFound`."""
        kept = tuple(entry for entry in self._entries if entry.name != name)
        if len(kept) == len(self._entries):
            raise NotFound(
                f"there is no token of {name!r}", nearest=sorted({entry.name for entry in self._entries})[:5]
            )
        self._replace(kept)

    def _replace(self, entries: tuple[_Entry, ...]) -> None:
        temporary = self._path.with_name(self._path.name + ".new")
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(_Content(tokens=entries)))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self._entries = entries


def _read(path: Path) -> tuple[_Entry, ...]:
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_Content)
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        raise Invalid(f"{path} is no token file: {error}") from None
    if content.version > _VERSION:
        raise Invalid(f"{path} is of version {content.version}, this program knows {_VERSION}")
    return content.tokens


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()

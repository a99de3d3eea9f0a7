"""Where tokens and registrations are kept: a file for each, mode 0600, and locks that hold across processes.

A file is named by a hash of whose it is, so no name tells anything; its content is replaced whole and is on the disk
before a token of it is used (acceptance 62). Nothing here is ever logged.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from delta_protocol.mcp.oauth.errors import OAuthError
from delta_protocol.mcp.oauth.tokens import Client, Tokens

VERSION = 1
LOCK_POLL = 0.02
"""Seconds between two looks at a lock that another process holds."""


class Grant(msgspec.Struct, frozen=True):
    """What one holder (a connector) has at one authorisation server for one resource.

    `server` is the canonical URL that was asked for, `resource` what its metadata calls it. `scopes` were asked for,
    `wanted` has been asked of us since. `key` is the private key in PEM that the tokens are bound to. `saved` is
    seconds since the epoch. Without `tokens` only the client is known.
    """

    holder: str
    server: str
    issuer: str
    resource: str
    token_endpoint: str
    client: Client
    tokens: Tokens | None = None
    scopes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    key: str | None = None
    saved: float = 0.0
    version: int = VERSION

    def __repr__(self) -> str:
        return f"Grant({self.holder!r}, {self.server!r}, {self.issuer!r}, {self.client!r}, {self.tokens!r})"

    @property
    def name(self) -> str:
        """The name of its file: credentials are kept per issuer (spec 1.16), resource and client."""
        return _name(self.holder, self.issuer, self.resource, self.client.client_id)

    @property
    def access_token(self) -> str | None:
        """The token to send, if there is one."""
        return self.tokens.access_token if self.tokens is not None else None


class TokenStore:
    """The grants in one directory, which is made with mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def grants(self, holder: str, server: str) -> tuple[Grant, ...]:
        """Return what is known of `holder` at `server`, the latest first. Files that cannot be read are left alone."""
        found: list[Grant] = []
        for path in self._directory.glob("*.json"):
            try:
                grant = msgspec.json.decode(path.read_bytes(), type=Grant)
            except (OSError, msgspec.DecodeError):
                continue
            if grant.version == VERSION and grant.holder == holder and grant.server == server:
                found.append(grant)
        return tuple(sorted(found, key=lambda grant: -grant.saved))

    async def save(self, grant: Grant) -> None:
        """Replace the grant's file; when this returns it is on the disk. Not cut by cancellation."""
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._write, grant)

    def forget(self, grant: Grant) -> None:
        """Remove the grant's file."""
        (self._directory / f"{grant.name}.json").unlink(missing_ok=True)

    @asynccontextmanager
    async def lock(self, purpose: str, holder: str, server: str, patience: float) -> AsyncGenerator[None]:
        """Hold the lock of a purpose for one holder and server, among all tasks and processes.

        Waits for `patience` seconds at most; raises `OAuthError`. The kernel gives it back at any death.
        """
        self._make_directory()
        path = self._directory / f"{_name(purpose, holder, server)}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with trio.move_on_after(patience) as waiting:
                while not _try_lock(descriptor):  # noqa: ASYNC110 - nothing tells when another process lets go
                    await trio.sleep(LOCK_POLL)
            if waiting.cancelled_caught:
                raise OAuthError(f"another process has been busy with the {purpose} for {patience:g} s")
            yield
        finally:
            os.close(descriptor)

    def _write(self, grant: Grant) -> None:
        self._make_directory()
        temporary = self._directory / f"{grant.name}.{os.getpid()}.new"
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(msgspec.json.encode(grant))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._directory / f"{grant.name}.json")
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]

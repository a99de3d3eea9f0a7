"""What the registry remembers over restarts: the order tools were first seen in, their last definitions, and eras; and,
in a file of its own, what connectors offer beside tools.

JSON files, replaced atomically, mode 0600. A file that a newer program wrote is refused; one that cannot be read is
put aside and the registry begins anew, since everything in it can be learned again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import TypeVar

import msgspec

from delta_protocol.errors import Refused

log = logging.getLogger("delta.registry")

VERSION = 1


class RememberedConnector(msgspec.Struct, frozen=True):
    """`definitions` are upstream tool objects as JSON text, in first-seen order. Times are seconds since the epoch."""

    name: str
    definitions: tuple[str, ...] = ()
    aliases: dict[str, str] = {}
    gone: tuple[str, ...] = ()
    """Tools that the last listing lacked."""
    held: dict[str, str] = {}
    """By tool, the definition that was looked at, where it changed since and nobody accepted that."""
    server_name: str = ""
    server_version: str = ""
    era: str = ""
    removed: float | None = None
    """When it was first missing from the configuration."""


class Memory(msgspec.Struct, frozen=True):
    """`number` and `digest` are those of the newest snapshot."""

    version: int = VERSION
    number: int = 0
    digest: str = ""
    connectors: tuple[RememberedConnector, ...] = ()


class RememberedOffer(msgspec.Struct, frozen=True):
    """A connector's definitions beside its tools, as JSON texts, and the parts of the protocol that it has."""

    name: str
    resources: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    has: tuple[str, ...] = ()


class OfferMemory(msgspec.Struct, frozen=True):
    """The connectors' offers."""

    version: int = VERSION
    connectors: tuple[RememberedOffer, ...] = ()


class _Versioned(msgspec.Struct):
    version: int


MemoryT = TypeVar("MemoryT", Memory, OfferMemory)


def load(path: Path) -> Memory:
    """Return what is remembered, an empty memory if nothing is. Raises `Refused` for a newer program's file."""
    return _load(path, Memory)


def load_offers(path: Path) -> OfferMemory:
    """Return the offers that are remembered; see `load`."""
    return _load(path, OfferMemory)


def _load(path: Path, kind: type[MemoryT]) -> MemoryT:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return kind()
    try:
        version = msgspec.json.decode(text, type=_Versioned).version
        if version > VERSION:
            raise Refused(
                f"{path} was written by a newer version of this program (format {version}, this one knows {VERSION}); "
                "use that version, or remove the file to let the catalogue be learned again",
                path=str(path),
            )
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        aside = path.with_suffix(".unreadable")
        path.replace(aside)
        log.warning("%s cannot be read (%s); it is kept as %s and its contents are learned again", path, error, aside)
        return kind()


def save(path: Path, memory: Memory | OfferMemory) -> None:
    """Replace the file; after a crash either the old or the new one is there, whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(memory))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

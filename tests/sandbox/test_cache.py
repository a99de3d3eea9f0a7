"""The compiled guest is executable code: whatever is wrong with the file, it is made anew and said, never loaded."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_actors.sandbox import cache
from delta_actors.sandbox.guest import cache_prefix
from delta_protocol.errors import Internal
from tests.sandbox.world import STATE, open_world

SOUND = STATE / "sandbox"


@pytest.fixture
async def guest(tmp_path: Path) -> Path:
    """A sound compiled guest in a state directory of its own."""
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    original = await cache.compiled_guest(SOUND)
    directory = tmp_path / "sandbox"
    directory.mkdir(mode=0o700)
    copy = directory / original.name
    shutil.copy2(original, copy)
    return copy


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def replace(file: Path) -> None:
    file.write_bytes(b"\x7fELF" + os.urandom(1000))


def flip(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(100_000)
        byte = opened.read(1)[0]
        opened.seek(100_000)
        opened.write(bytes([byte ^ 1]))


def let_others_write(file: Path) -> None:
    file.chmod(0o666)


def give_away(file: Path) -> None:
    if os.getuid():
        pytest.skip("only root can give a file to another user")
    os.chown(file, 12345, 12345)


def link(file: Path) -> None:
    elsewhere = file.with_name("elsewhere")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


@pytest.mark.parametrize("damage", [truncate, empty, replace, flip, let_others_write, give_away, link])
async def test_a_damaged_file_is_made_anew_and_said(
    guest: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(guest)
    with caplog.at_level(logging.ERROR, "delta.sandbox"):
        async with open_world(guest.parent.parent) as world:
            assert await world.value("return 1", timeout=120) == 1
    assert [record for record in caplog.records if str(guest) in record.getMessage()]
    made = await cache.compiled_guest(guest.parent)
    assert not made.is_symlink()
    assert made.stat().st_mode & 0o077 == 0
    assert made.stat().st_uid == os.getuid()


async def test_a_sound_file_is_used_as_it_is(guest: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = guest.stat()
    async with open_world(guest.parent.parent) as world:
        assert await world.value("return 1") == 1
    assert (guest.stat().st_ino, guest.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not caplog.records


async def test_a_file_that_the_engine_refuses_is_made_anew_once(guest: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Sound by its hash, but not for this engine: as if the directory came from another machine.
    other = b"\x7fELF of another machine"
    guest.unlink()
    alien = guest.with_name(f"{cache_prefix()}{hashlib.sha256(other).hexdigest()}.cwasm")
    alien.write_bytes(other)
    alien.chmod(0o600)
    async with open_world(guest.parent.parent) as world:
        assert await world.value("return 1", timeout=120) == 1
    assert not alien.exists()
    assert [record for record in caplog.records if str(alien) in record.getMessage()]


async def test_compiling_removes_the_files_of_other_versions(guest: Path) -> None:
    old = guest.with_name("guest-0000000000000000-wasmtime1.0.0-x86_64.cwasm")
    old.write_bytes(b"old")
    guest.unlink()
    made = await cache.compiled_guest(guest.parent)
    assert list(guest.parent.iterdir()) == [made]


async def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "sandbox"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(Internal, match="written by others"):
        await cache.compiled_guest(open_to_all)

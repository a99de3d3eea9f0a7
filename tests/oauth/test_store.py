"""Tokens on the disk, and ten processes that share them."""

from __future__ import annotations

import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, open_http
from delta_actors.mcp.oauth_store import Grant, TokenStore
from delta_protocol.mcp.oauth.errors import OAuthError
from delta_protocol.mcp.oauth.tokens import Client, Tokens
from tests.oauth.world import Browser, world

ROOT = Path(__file__).resolve().parents[2]


def grant(holder: str = "wiki", issuer: str = "https://as.test", client: str = "me", saved: float = 1.0) -> Grant:
    return Grant(
        holder,
        "https://a.test/mcp",
        issuer,
        "https://a.test",
        f"{issuer}/token",
        Client(client),
        Tokens("secret-token", "secret-refresh"),
        saved=saved,
    )


# acceptance 62
async def test_ten_processes_share_rotating_refresh_tokens_and_never_use_one_twice(tmp_path: Path) -> None:
    async with world() as given:
        given.server.lifetime, given.server.grace = 0.6, 60  # however slow the machine, no token ends on its way
        auth = OAuth(given.url, OAuthSettings(tmp_path, "wiki"), Browser().visitor())
        async with open_http(HttpParameters(given.url, auth=auth)):
            pass
        command = [sys.executable, "-m", "tests.oauth.refresher", str(tmp_path), given.url, "25"]
        run = partial(trio.run_process, command, capture_stderr=True, check=False, cwd=ROOT)
        done: list[subprocess.CompletedProcess[bytes]] = []

        async def one() -> None:
            done.append(await run())

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(one)
        assert [each.returncode for each in done] == [0] * 10, b"\n".join(each.stderr for each in done).decode()
        assert given.server.reused == 0
        assert given.server.grants().count("authorization_code") == 1
        assert given.server.grants().count("refresh_token") > 1


async def test_credentials_are_kept_by_issuer_resource_client_and_holder(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "oauth")
    kept = [grant(), grant(issuer="https://other.test", saved=3), grant(client="you", saved=2), grant("mail")]
    for each in kept:
        await store.save(each)
    found = store.grants("wiki", "https://a.test/mcp")
    assert found == (kept[1], kept[2], kept[0])
    assert store.grants("wiki", "https://b.test/mcp") == ()
    for path in (tmp_path / "oauth").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(path.stem) == 40
    store.forget(kept[1])
    store.forget(kept[1])
    assert store.grants("wiki", "https://a.test/mcp") == (kept[2], kept[0])


async def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    store = TokenStore(tmp_path)
    await store.save(grant())
    (tmp_path / "junk.json").write_bytes(b"{")
    (tmp_path / "later.json").write_bytes(b'{"version": 2}')
    assert store.grants("wiki", "https://a.test/mcp") == (grant(),)


async def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    store, other = TokenStore(tmp_path), TokenStore(tmp_path)
    async with store.lock("refresh", "wiki", "a", 5):
        with pytest.raises(OAuthError, match="busy with the refresh"):
            async with other.lock("refresh", "wiki", "a", 0.05):
                raise AssertionError
        async with other.lock("refresh", "mail", "a", 5), other.lock("sign-in", "wiki", "a", 5):
            pass
    async with other.lock("refresh", "wiki", "a", 5):
        pass

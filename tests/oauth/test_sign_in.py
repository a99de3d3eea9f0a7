"""acceptance 64: several sign-ins at once, ports in use, answers that belong to nobody."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import httpx
import pytest
import trio

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, loopback, open_http
from delta_actors.mcp.oauth_redirect import PORTS
from delta_protocol.mcp.oauth.errors import OAuthError
from tests.oauth.world import Browser, world


def quiet(words: str) -> None:
    raise AssertionError(words)


async def test_four_sign_ins_at_once_come_back_each_to_its_own(tmp_path: Path) -> None:
    said: list[str] = []
    async with world() as given:
        port = free_port()

        async def sign_in(name: str) -> None:
            auth = OAuth(given.url, OAuthSettings(tmp_path, name), loopback(Browser().show, port, said.append))
            async with open_http(HttpParameters(given.url, auth=auth)):
                assert auth.sign_ins == 1

        async with trio.open_nursery() as nursery:
            for name in ("one", "two", "three", "four"):
                nursery.start_soon(sign_in, name)
        forms = [each.form for each in given.server.asked if each.path == "/token"]
        assert len({form["code_verifier"] for form in forms}) == 4
        assert len(given.server.clients) == 4


async def test_one_holders_sessions_open_one_page(tmp_path: Path) -> None:
    async with world() as given:
        browser = Browser()
        settings = OAuthSettings(tmp_path, "wiki")

        async def use() -> None:
            auth = OAuth(given.url, settings, loopback(browser.show, 0, quiet))
            async with open_http(HttpParameters(given.url, auth=auth)):
                pass

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(use)
        assert len(browser.opened) == 1
        assert given.server.grants() == ["authorization_code"]


async def test_a_port_in_use_is_said_in_words_and_the_next_one_taken() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with loopback(Browser().show, port, said.append)() as visit:
            assert visit.redirect_uri != f"http://127.0.0.1:{port}/callback"
            assert visit.redirect_uri.startswith("http://127.0.0.1:")
    assert len(said) == 1
    assert str(port) in said[0]
    assert "in use" in said[0]


async def test_no_free_port_is_an_error_that_says_what_to_configure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delta_actors.mcp.oauth_redirect.PORTS", 1)
    assert PORTS > 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(OAuthError, match="redirect_port"):
            async with loopback(Browser().show, taken.getsockname()[1], quiet)():
                pass


async def test_an_answer_of_nobody_changes_nothing() -> None:
    answers: list[int] = []

    async def show(url: str) -> None:
        async with httpx.AsyncClient() as http:
            queries = ("", "?code=c", "?code=c&state=other", "?code=c&state=mine&state=mine")
            answers.extend([(await http.get(url + query)).status_code for query in queries])
            answers.append((await http.get(url.replace("/callback", "/favicon.ico"))).status_code)
            answers.append((await http.post(url + "?code=c&state=mine")).status_code)
            answers.append((await http.get(url + "?code=right&state=mine")).status_code)

    async with loopback(show, 0, quiet)() as visit:
        with trio.fail_after(30):
            assert await visit.follow(visit.redirect_uri, "mine") == "code=right&state=mine"
    assert answers == [400, 400, 400, 400, 404, 404, 200]


async def test_junk_on_the_listener_ends_that_connection_alone() -> None:
    async def show(url: str) -> None:
        port = int(url.rpartition(":")[2].partition("/")[0])
        for junk in (b"\x00\x01\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x" * 70_000, b""):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                try:
                    await stream.send_all(junk)
                except trio.BrokenResourceError:
                    continue
        async with httpx.AsyncClient() as http:
            await http.get(url + "?code=right&state=mine")

    async with loopback(show, 0, quiet)() as visit:
        with trio.fail_after(30):
            assert "right" in await visit.follow(visit.redirect_uri, "mine")


async def test_the_example_signs_in_by_the_browser_once(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n")
    browser.chmod(0o755)
    example = Path(__file__).resolve().parents[2] / "docs" / "examples" / "signed_in_client.py"
    env = {**os.environ, "BROWSER": f"{browser} %s", "NO_PROXY": "*"}
    async with world() as given:
        for _ in range(2):
            command = [sys.executable, str(example), given.url, str(tmp_path / "tokens")]
            with trio.fail_after(60):
                done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, env=env)
            assert done.stdout.decode().split() == ["get_note", "add_note"], done.stderr
        assert given.server.grants() == ["authorization_code"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])

"""`delta-supervisor login`, as somebody would use it who opens the printed address."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.oauth.world import World, world
from tests.stack.harness import PROGRAM, Stack


async def login(stack: Stack, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command, open what it prints on stderr, and return its code, stdout and stderr."""
    flags = ["--state-dir", str(stack.state), "--config", str(stack.config)]
    command = [PROGRAM, "login", *flags, "--no-browser", *arguments]
    told: dict[str, str] = {"stdout": "", "stderr": ""}
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process,
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**stack.env, **(env or {})},
            cwd=stack.home,
            check=False,
        )
        process: trio.Process = await nursery.start(run)

        async def read(name: str, stream: Any) -> None:
            opened = False
            async for chunk in stream:
                told[name] += chunk.decode()
                address = next((line for line in told[name].splitlines(keepends=True) if _whole(line)), None)
                if address is not None and not opened:
                    opened = True
                    async with httpx.AsyncClient(follow_redirects=True) as http:
                        assert "has arrived" in (await http.get(address.strip())).text

        with trio.fail_after(60):
            async with trio.open_nursery() as readers:
                readers.start_soon(read, "stdout", process.stdout)
                readers.start_soon(read, "stderr", process.stderr)
            code = await process.wait()
    return code, told["stdout"], told["stderr"]


def _whole(line: str) -> bool:
    return line.startswith("http") and line.endswith("\n")


def wiki(home: Path, given: World, oauth: str = "") -> Stack:
    return Stack(
        home,
        f'version = 1\n[connectors.wiki]\nurl = "{given.url}"\n[connectors.wiki.oauth]\nredirect_port = 0\n{oauth}\n'
        '[connectors.local]\ncommand = "true"\n',
    )


async def test_a_person_signs_in_and_the_next_command_needs_nobody(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.challenge_scope = "read"
        stack = wiki(tmp_path, given)
        code, shown, words = await login(stack, "wiki")
        assert (code, shown) == (0, f"signed in to wiki at {given.server.origin} for read; it has 2 tools\n"), words
        for secret in (*given.server.access, *given.server.refresh):
            assert secret not in shown + words
        code, shown, words = await login(stack, "--json", "wiki")
        assert code == 0, words
        assert json.loads(shown) == {
            "connector": "wiki",
            "tools": 2,
            "issuer": given.server.origin,
            "scopes": ["read"],
        }
        assert given.server.grants() == ["authorization_code", "authorization_code"]
        assert len(list((stack.state / "oauth").glob("*.json"))) == len(given.server.clients)


async def test_a_server_that_asks_for_none_is_said_so(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.open = True
        given.server.metadata["issuer"] = "https://other.test"
        code, shown, words = await login(wiki(tmp_path, given), "wiki")
        assert (code, shown) == (0, "wiki asks for no sign-in; it has 2 tools\n"), words


async def test_a_refusal_is_in_words(tmp_path: Path) -> None:
    async with world() as given:
        given.server.metadata["code_challenge_methods_supported"] = None
        code, _, words = await login(wiki(tmp_path, given), "wiki")
        assert code == 2
        assert "S256" in words


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("wikki", 2, "did you mean wiki?"), ("local", 2, "program"), ("wiki", 78, "NOT_THERE")],
)
async def test_what_cannot_be_signed_in_to_is_said(name: str, code: int, said: str, tmp_path: Path) -> None:
    async with world() as given:
        stack = wiki(tmp_path, given, 'client_id = "me"\nclient_secret = "env:NOT_THERE"')
        ended, _, words = await login(stack, name)
        assert (ended, said in words) == (code, True), words

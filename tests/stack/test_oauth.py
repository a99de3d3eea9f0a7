"""The walk-through of the page, against a whole stack and a real authorisation server."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import httpx
import trio

from tests.resource_server.authority import authority
from tests.stack.harness import Stack

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
PUBLIC = "https://delta.example.com/mcp"
CONFIG = """
version = 1
[auth]
mode = "oauth"
public_url = "https://delta.example.com/mcp"
issuer = "{url}"
jwks_url = "{url}/jwks"
scopes = ["delta"]
"""


async def test_the_walk_through_of_the_page_works_as_typed(home: Path) -> None:
    (script,) = [part.split("```")[0] for part in PAGE.read_text().split("```sh\n")[1:] if "$TOKEN" in part]
    async with authority() as issuer:
        stack = Stack(home, CONFIG.format(url=issuer.url))
        try:
            await trio.to_thread.run_sync(stack.start)
            url = await trio.to_thread.run_sync(lambda: stack.url)
            script = script.replace("127.0.0.1:8420", httpx.URL(url).netloc.decode())
            done = await trio.to_thread.run_sync(
                partial(
                    subprocess.run,
                    ["bash", "-euo", "pipefail", "-c", script],
                    env={**stack.env, "TOKEN": issuer.token(PUBLIC, scope="delta")},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
            )
        finally:
            await trio.to_thread.run_sync(stack.stop)
    assert done.returncode == 0, done.stderr
    asked, _, rest = done.stdout.partition("\n\n")
    assert asked.startswith("HTTP/1.1 401")
    assert 'resource_metadata="https://delta.example.com/.well-known/oauth-protected-resource/mcp"' in asked
    assert 'scope="delta"' in asked
    metadata, answered, answer = rest[rest.index('{"resource"') :].partition("HTTP/1.1 ")
    assert json.loads(metadata)["authorization_servers"] == [issuer.url]
    assert answered
    assert answer.startswith("200")
    assert "mcp-session-id" in answer

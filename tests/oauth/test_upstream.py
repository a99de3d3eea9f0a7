"""acceptance 68: what a client of the gateway sends as its own authorisation never reaches a connector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import trio

from delta_actors.mcp import HttpParameters, OAuth, open_http
from delta_actors.mcp.oauth_settings import settings_of
from delta_protocol.config import OAuthConfig
from tests.oauth.world import Answer, Asked, Browser, web, world
from tests.stack.harness import Stack, prepared
from tests.stack.wire import HttpClient, facts_of, text_of


async def test_a_clients_token_ends_at_the_gateway(home: Path) -> None:
    """Listing, passing through, reading, writing, resources, a connector that redirects, one with OAuth of its own."""
    recorded: list[Asked] = []

    def elsewhere(asked: Asked) -> Answer:
        recorded.append(asked)
        return Answer(404)

    async with world() as plain, world() as signed, web(elsewhere) as target:
        plain.resource.open = True
        await _sign_in(signed.url, home / "state")

        def away(asked: Asked) -> Answer:
            recorded.append(asked)
            return Answer(307, headers={"location": f"{target}/mcp"})

        async with web(away) as moved:
            config = "version = 1\n" + "".join(
                f'[connectors.{name}]\nurl = "{url}"\nmode = "full"\nexpose = "tools"\n'
                for name, url in (("plain", plain.url), ("signed", signed.url), ("moved", f"{moved}/mcp"))
            )
            with prepared(home, config) as stack:
                await trio.to_thread.run_sync(stack.start)
                await _use_everything(stack)
                await trio.to_thread.run_sync(stack.stop)
    assert plain.resource.asked
    assert recorded, "the redirecting connector was reached"
    assert all(asked.path != "/mcp" or "authorization" not in asked.headers for asked in recorded)
    assert {asked.headers.get("authorization") for asked in plain.resource.asked} == {None}
    assert set(signed.resource.sent()) <= {"", *(f"Bearer {token}" for token in signed.server.access)}
    for asked in (*plain.resource.asked, *signed.resource.asked, *recorded):
        assert "delta_" not in str(asked.headers), asked
    methods = [asked.json["method"] for asked in plain.resource.asked if asked.method == "POST"]
    assert methods.count("tools/call") >= 3
    assert "tools/list" in methods


async def _sign_in(url: str, state: Path) -> None:
    auth = OAuth(url, settings_of("signed", OAuthConfig(), state), Browser().visitor())
    async with open_http(HttpParameters(url, auth=auth)):
        pass


async def _use_everything(stack: Stack) -> None:
    added = await trio.to_thread.run_sync(lambda: stack.cli("token add", "ci"))
    token = added.stdout.strip()
    assert token.startswith("delta_"), added.stderr
    url = await trio.to_thread.run_sync(lambda: stack.url)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=60, headers=headers, trust_env=False) as http:
        client = HttpClient(url, http)
        read = await client.call("delta", code="return [await plain.get_note({}), await signed.get_note({})]")
        assert not read["result"].get("isError"), text_of(read)
        assert "result" in await client.request("tools/list")
        for name in ("plain_get_note", "signed_get_note"):
            passed = await client.call(name)
            assert text_of(passed) == "done", passed
        written = facts_of(await client.call("delta", code="await plain.add_note({}); await signed.add_note({});"))
        assert written, written
        failed: dict[str, Any] = await client.call("delta", code="return await moved.get_note({})")
        assert failed
        await client.request("resources/list")

"""A connector over HTTP that asks for a sign-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_actors.mcp import HttpParameters, OAuth, open_http
from delta_actors.mcp.oauth_settings import settings_of
from delta_protocol.config import ConnectorConfig, OAuthConfig
from delta_protocol.errors import ConnectorFailed
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import Outcome, ReadTool
from tests.oauth.world import Browser, World, world
from tests.registry.systems import catalogue_when, from_, listed, registry, service_when, started


async def sign_in(given: World, state: Path, scopes: tuple[str, ...] = ()) -> None:
    settings = settings_of("wiki", OAuthConfig(scopes=scopes), state)
    auth = OAuth(given.url, settings, Browser().visitor())
    async with open_http(HttpParameters(given.url, auth=auth)):
        assert auth.sign_ins == 1


async def test_a_connector_without_tokens_says_what_to_run_and_works_once_they_are_there(tmp_path: Path) -> None:
    async with world() as given, registry(tmp_path, {"wiki": ConnectorConfig(url=given.url)}) as system:
        ref = await started(system)
        status = await service_when(ref, "wiki", lambda each: "login wiki" in each.detail)
        assert "sign-in" in status.detail
        with pytest.raises(ConnectorFailed, match="delta-supervisor login wiki"):
            await from_(system, Role.SANDBOX).ask(ReadTool("wiki", "get_note", b"{}"))
        assert given.server.asked == []

        await sign_in(given, tmp_path)
        await catalogue_when(ref, listed("wiki"))
        read = await from_(system, Role.SANDBOX).ask(ReadTool("wiki", "get_note", b"{}"))
        assert (read.outcome, read.message) == (Outcome.OK, "")


async def test_a_connector_renews_its_tokens_by_itself(tmp_path: Path) -> None:
    async with world() as given:
        await sign_in(given, tmp_path)
        async with registry(tmp_path, {"wiki": ConnectorConfig(url=given.url)}) as system:
            await catalogue_when(await started(system), listed("wiki"))
            given.server.revoke()
            read = await from_(system, Role.SANDBOX).ask(ReadTool("wiki", "get_note", b"{}"))
            assert read.outcome is Outcome.OK
            assert given.server.grants() == ["authorization_code", "refresh_token"]


async def test_scopes_that_are_lacking_are_named_with_what_to_run(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.call_scope = "write"
        await sign_in(given, tmp_path, ("read",))
        async with registry(tmp_path, {"wiki": ConnectorConfig(url=given.url)}) as system:
            await catalogue_when(await started(system), listed("wiki"))
            refused = await from_(system, Role.SANDBOX).ask(ReadTool("wiki", "get_note", b"{}"))
            assert refused.outcome is Outcome.NOT_SENT
            assert "read write" in refused.message
            assert "login wiki" in refused.message


async def test_a_client_of_its_own_needs_nobody(tmp_path: Path) -> None:
    oauth = OAuthConfig(grant="client_credentials", client_id="me", client_secret="hidden-words")
    async with world() as given:
        given.server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        async with registry(tmp_path, {"wiki": ConnectorConfig(url=given.url, oauth=oauth)}) as system:
            await catalogue_when(await started(system), listed("wiki"))
        assert given.server.grants() == ["client_credentials"]


async def test_credentials_of_its_own_are_sent_and_nothing_else_tried(tmp_path: Path) -> None:
    async with world() as given:
        config = ConnectorConfig(url=given.url, headers={"Authorization": "Bearer own"})
        async with registry(tmp_path, {"wiki": config}) as system:
            status = await service_when(await started(system), "wiki", lambda each: "401" in each.detail)
            assert "login" not in status.detail
        assert set(given.resource.sent()) == {"Bearer own"}


async def test_a_connector_that_repeats_its_token_is_not_repeated(tmp_path: Path) -> None:
    async with world() as given:
        await sign_in(given, tmp_path)
        token = next(iter(given.server.access))
        async with registry(tmp_path, {"wiki": ConnectorConfig(url=given.url)}) as system:
            await catalogue_when(await started(system), listed("wiki"))
            given.resource.refusing = f"{token} may not do that"
            refused = await from_(system, Role.SANDBOX).ask(ReadTool("wiki", "get_note", b"{}"))
            assert "may not do that" in refused.message
            assert token not in refused.message

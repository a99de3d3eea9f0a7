"""Tokens that nobody signs in for: with a workload's JWT, or an ID token that an identity provider exchanges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, open_http
from delta_actors.mcp.oauth_settings import IdentityProvider, settings_of
from delta_protocol.config import OAuthConfig
from delta_protocol.mcp.oauth.errors import ConfigurationNeeded, OAuthError, TokenRefused
from delta_protocol.mcp.oauth.registration import Given
from tests.oauth.world import Answer, Asked, World, web, world

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


def settings(state: Path, **changes: Any) -> OAuthSettings:
    (state / "word.jwt").write_text("first.word.here\n")
    given = Given("workload")
    return OAuthSettings(state / "oauth", "wiki", "jwt_bearer", given, assertion=state / "word.jwt", **changes)


async def called(given: World, auth: OAuth, times: int = 1) -> None:
    async with open_http(HttpParameters(given.url, auth=auth)) as client:
        for _ in range(times):
            await client.call_tool("t", b"{}")


async def test_a_workload_asks_with_its_jwt_read_anew_each_time(tmp_path: Path) -> None:
    async with world() as given:
        given.server.refreshing = False
        auth = OAuth(given.url, settings(tmp_path))
        async with open_http(HttpParameters(given.url, auth=auth)) as client:
            (tmp_path / "word.jwt").write_text("second.word.here")
            given.server.revoke()
            await client.call_tool("t", b"{}")
        forms = [each.form for each in given.server.asked if each.path == "/token"]
        assert [form["assertion"] for form in forms] == ["first.word.here", "second.word.here"]
        assert {(form["grant_type"], form["resource"], form["client_id"]) for form in forms} == {
            (JWT_BEARER, given.url, "workload")
        }
        assert given.server.count("/register") == 0


async def test_a_jwt_that_is_refused_is_not_sent_again_and_nothing_else_tried(tmp_path: Path) -> None:
    async with world() as given:
        given.server._give = lambda scope: Answer(400, {"error": "invalid_grant"})  # type: ignore[method-assign]
        with pytest.raises(TokenRefused, match="invalid_grant"):
            await called(given, OAuth(given.url, settings(tmp_path)))
        assert given.server.grants() == [JWT_BEARER]
        assert given.server.count("/authorize") == 0


async def test_a_missing_file_is_said(tmp_path: Path) -> None:
    async with world() as given:
        chosen = settings(tmp_path)
        (tmp_path / "word.jwt").unlink()
        with pytest.raises(ConfigurationNeeded, match=r"word\.jwt cannot be read"):
            await called(given, OAuth(given.url, chosen))
        assert given.server.count("/token") == 0


async def test_an_id_token_is_exchanged_at_the_identity_provider_alone(tmp_path: Path) -> None:
    asked: list[Asked] = []

    def exchange(request: Asked) -> Answer:
        asked.append(request)
        return Answer(200, {"access_token": "the.id.jag", "issued_token_type": ID_JAG, "token_type": "N_A"})

    async with world() as given, web(exchange) as idp:
        provider = IdentityProvider(f"{idp}/token", "at-idp", "idp-secret")
        await called(given, OAuth(given.url, settings(tmp_path, provider=provider, scopes=("a",))))
        (form,) = [each.form for each in asked]
        assert form["subject_token"] == "first.word.here"
        assert (form["audience"], form["resource"], form["scope"]) == (given.server.origin, given.url, "a")
        assert asked[0].headers["authorization"].startswith("Basic ")
        (sent,) = [each.form for each in given.server.asked if each.path == "/token"]
        assert (sent["assertion"], sent["grant_type"]) == ("the.id.jag", JWT_BEARER)
        seen = b"".join(each.body for each in (*given.server.asked, *given.resource.asked))
        assert b"first.word" not in seen


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(200, {"access_token": "x", "issued_token_type": "urn:other"}), "another kind"),
        (Answer(200, b"<html>"), "without a token"),
        (Answer(400, {"error": "invalid_request"}), "invalid_request"),
        (Answer(503), "cannot answer now"),
    ],
    ids=["kind", "html", "refused", "down"],
)
async def test_what_the_identity_provider_does_not_give_is_said(answer: Answer, said: str, tmp_path: Path) -> None:
    async with world() as given, web(lambda _: answer) as idp:
        provider = IdentityProvider(f"{idp}/token", "at-idp")
        with pytest.raises(OAuthError, match=said):
            await called(given, OAuth(given.url, settings(tmp_path, provider=provider)))
        assert given.server.count("/token") == 0


def test_the_configuration_becomes_these_settings(tmp_path: Path) -> None:
    config = OAuthConfig(
        grant="jwt_bearer",
        client_id="me",
        assertion_file="/run/token",
        idp_token_endpoint="https://idp.test/token",
        idp_client_id="at-idp",
        idp_client_secret="hidden",
        dpop=True,
    )
    made = settings_of("wiki", config, tmp_path)
    assert (made.grant, made.assertion, made.dpop) == ("jwt_bearer", Path("/run/token"), True)
    assert made.provider == IdentityProvider("https://idp.test/token", "at-idp", "hidden")
    assert "hidden" not in repr((made, made.provider))

"""A client over HTTP that is refused: what it finds out, what it asks for, and when it stops."""

from __future__ import annotations

import stat
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delta_actors.mcp import DeltaClient, HttpParameters, NotSent, OAuth, OAuthSettings, open_http
from delta_actors.mcp.oauth_store import Grant, TokenStore
from delta_protocol.mcp.oauth.errors import (
    ConfigurationNeeded,
    MetadataRefused,
    OAuthError,
    ResponseRefused,
    SignInNeeded,
    TokenRefused,
)
from delta_protocol.mcp.oauth.registration import Given
from tests.oauth.world import Answer, Browser, World, web, world


def settings(state: Path, **changes: Any) -> OAuthSettings:
    return OAuthSettings(state / "oauth", "wiki", hint="run login", **changes)


@asynccontextmanager
async def client(given: World, auth: OAuth) -> AsyncGenerator[DeltaClient]:
    async with open_http(HttpParameters(given.url, auth=auth)) as opened:
        yield opened


async def called(given: World, auth: OAuth) -> None:
    async with client(given, auth) as opened:
        await opened.call_tool("t", b"{}")


def grants(given: World, state: Path) -> tuple[Grant, ...]:
    return TokenStore(state / "oauth").grants("wiki", given.url)


async def test_a_first_sign_in_goes_from_the_refusal_to_the_call(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.challenge_scope = "read"
        browser = Browser()
        await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        asked = browser.asked()[0]
        assert (asked["resource"], asked["scope"], asked["client_id"]) == (given.url, "read", "client-1")
        assert asked["code_challenge_method"] == "S256"
        token = next(each for each in given.server.asked if each.path == "/token").form
        assert (token["resource"], token["redirect_uri"]) == (given.url, browser.redirect_uri)
        assert given.server.clients["client-1"]["application_type"] == "native"
        assert given.server.count("/token") == 1
        assert given.resource.sent()[0] == ""


async def test_what_was_got_is_kept_for_the_owner_alone_and_used_again(tmp_path: Path) -> None:
    async with world() as given:
        await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        before = len(given.server.asked)
        await called(given, OAuth(given.url, settings(tmp_path)))
        assert len(given.server.asked) == before
        folder = tmp_path / "oauth"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert "wiki" not in path.name
            assert "127" not in path.name


async def test_without_a_person_the_error_says_what_to_run(tmp_path: Path) -> None:
    async with world() as given:
        with pytest.raises(SignInNeeded, match="run login"):
            await called(given, OAuth(given.url, settings(tmp_path)))
        assert given.server.asked == []


# acceptance 61
async def test_a_token_is_refreshed_before_its_end_and_once_after_a_refusal(tmp_path: Path) -> None:
    async with world() as given:
        given.server.lifetime = 50
        await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        await _age(given, tmp_path, 30)
        given.server.lifetime = 3600
        auth = OAuth(given.url, settings(tmp_path))
        async with client(given, auth) as opened:
            assert given.server.grants() == ["authorization_code", "refresh_token"]
            assert given.resource.sent().count("") == 1
            given.server.revoke()
            await opened.call_tool("t", b"{}")
            assert given.server.grants()[2:] == ["refresh_token"]
            given.server.revoke()
            given.server.refresh.clear()
            with pytest.raises(SignInNeeded):
                await opened.call_tool("t", b"{}")
            with pytest.raises(SignInNeeded):
                await opened.call_tool("t", b"{}")
            # A refresh token that was refused is not tried again.
            assert given.server.grants()[3:] == ["refresh_token"]


async def test_a_failing_refresh_does_not_stop_a_token_that_still_counts(tmp_path: Path) -> None:
    async with world() as given:
        await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        grant = grants(given, tmp_path)[0]
        assert grant.tokens is not None
        tokens = msgspec.structs.replace(grant.tokens, issued=time.time() - 3590, expires=time.time() + 10)
        moved = msgspec.structs.replace(grant, tokens=tokens, token_endpoint="http://127.0.0.1:1/token")
        await TokenStore(tmp_path / "oauth").save(moved)
        await called(given, OAuth(given.url, settings(tmp_path)))


async def test_a_token_endpoint_in_trouble_costs_no_refresh_token(tmp_path: Path) -> None:
    async with world() as given:
        await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        given.server.revoke()
        give = given.server._give
        given.server._give = lambda scope: Answer(503)  # type: ignore[method-assign]
        kept = dict(given.server.refresh)
        with pytest.raises(OAuthError, match="cannot answer now"):
            await called(given, OAuth(given.url, settings(tmp_path)))
        given.server._give, given.server.refresh = give, kept  # type: ignore[method-assign]
        given.server.spent.clear()
        await called(given, OAuth(given.url, settings(tmp_path)))


# acceptance 63
async def test_a_token_without_an_end_or_a_refresh_token_is_used_until_it_is_refused(tmp_path: Path) -> None:
    async with world() as given:
        given.server.lifetime, given.server.refreshing = None, False
        browser = Browser()
        auth = OAuth(given.url, settings(tmp_path), browser.visitor())
        async with client(given, auth) as opened:
            for _ in range(3):
                await opened.call_tool("t", b"{}")
            assert given.server.grants() == ["authorization_code"]
            given.server.revoke()
            await opened.call_tool("t", b"{}")
            assert given.server.grants() == ["authorization_code"] * 2
            assert len(given.server.clients) == 1


async def test_more_scopes_are_asked_for_together_with_those_there_were(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.challenge_scope, given.resource.call_scope = "read", "write"
        browser = Browser()
        await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        assert [asked["scope"] for asked in browser.asked()] == ["read", "read write"]


async def test_a_scope_that_was_asked_for_in_vain_is_not_asked_for_again(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.challenge_scope, given.resource.call_scope = "read", "never"
        browser = Browser()
        give = given.server._give  # what a server does that gives less than it is asked for
        given.server._give = lambda scope: give("read")  # type: ignore[method-assign]
        async with client(given, OAuth(given.url, settings(tmp_path), browser.visitor())) as opened:
            for _ in range(2):
                with pytest.raises(NotSent, match="403"):
                    await opened.call_tool("t", b"{}")
        assert len(browser.opened) == 2


async def test_scopes_that_a_stack_lacks_are_asked_for_at_the_next_sign_in(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.challenge_scope, given.resource.call_scope = "read", "write"
        async with client(given, OAuth(given.url, settings(tmp_path), Browser().visitor())):
            pass
        with pytest.raises(SignInNeeded, match="read write"):
            await called(given, OAuth(given.url, settings(tmp_path)))
        given.server.revoke()
        given.server.refresh.clear()
        browser = Browser()
        await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        assert browser.asked()[0]["scope"] == "read write"


async def test_a_server_that_refuses_every_token_is_not_asked_forever(tmp_path: Path) -> None:
    async with world() as given:
        given.server.lifetime = -10
        browser = Browser()
        with pytest.raises(OAuthError, match="refuses the token"):
            await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        assert len(browser.opened) == 1


async def test_the_endless_body_of_a_refusal_is_not_read(tmp_path: Path) -> None:
    async with world() as given:
        given.resource.body = b" " * (1 << 20)
        await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))


@pytest.mark.parametrize(
    ("bend", "error"),
    [
        (lambda w: w.resource.metadata.update(resource="https://evil.test/mcp"), MetadataRefused),
        (lambda w: w.server.metadata.update(issuer="https://evil.test"), MetadataRefused),
        (lambda w: w.server.metadata.update(code_challenge_methods_supported=None), MetadataRefused),
        (lambda w: w.server.metadata.update(code_challenge_methods_supported=["plain"]), MetadataRefused),
        (lambda w: w.server.metadata.update(authorization_endpoint=None), MetadataRefused),
        (lambda w: w.server.metadata.update(token_endpoint="http://evil.test/token"), MetadataRefused),
        (lambda w: w.server.metadata.update(registration_endpoint=None), ConfigurationNeeded),
        (lambda w: setattr(w.server, "iss", None), ResponseRefused),
        (lambda w: setattr(w.server, "iss", "https://evil.test"), ResponseRefused),
        (lambda w: setattr(w.server, "iss", w.server.origin + "/"), ResponseRefused),
        (lambda w: w.resource.metadata.update(authorization_servers=["http://169.254.169.254/"]), MetadataRefused),
        (lambda w: w.resource.metadata.update(authorization_servers=["https://169.254.169.254/"]), MetadataRefused),
    ],
    ids=[str(number) for number in range(12)],
)
async def test_nothing_secret_is_sent_where_a_document_or_an_answer_does_not_fit(
    bend: Any, error: type[OAuthError], tmp_path: Path
) -> None:
    async with world() as given:
        bend(given)
        with pytest.raises(error):
            await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        assert given.server.count("/token") == 0


async def test_a_server_from_before_its_metadata_was_asked_for_is_its_own_issuer(tmp_path: Path) -> None:
    async with world() as given:
        given.server.metadata["issuer"] = None

        def both(asked: Any) -> Any:
            if asked.path == "/mcp":
                return given.resource.handle(asked)
            return given.server.handle(asked)

        async with web(both) as origin:
            given.server.origin = given.resource.origin = origin
            given.server.metadata["issuer"] = origin
            browser = Browser()
            await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
            assert browser.asked()[0]["resource"] == f"{origin}/mcp"


async def test_another_authorisation_server_gets_nothing_of_the_first_ones(tmp_path: Path) -> None:
    async with world() as given, world() as other:
        browser = Browser()
        auth = OAuth(given.url, settings(tmp_path), browser.visitor())
        async with client(given, auth) as opened:
            first = given.resource.sent()[-1].removeprefix("Bearer ")
            given.resource.server = other.server
            await opened.call_tool("t", b"{}")
            assert given.server.grants() == ["authorization_code", "refresh_token"]
        assert [each["client_id"] for each in browser.asked()] == ["client-1", "client-1"]
        assert other.server.count("/register") == 1
        said = b" ".join(each.body for each in other.server.asked)
        assert first.encode() not in said
        held = {grant.issuer: grant for grant in grants(given, tmp_path)}
        assert held[given.server.origin].tokens is None
        assert held[given.server.origin].client.client_id == "client-1"
        assert held[other.server.origin].tokens is not None


async def test_a_configured_client_is_shown_to_its_own_issuer_alone(tmp_path: Path) -> None:
    async with world() as given, world() as other:
        given.server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        known = Given("me", "hidden")
        browser = Browser()
        async with client(given, OAuth(given.url, settings(tmp_path, given=known), browser.visitor())) as opened:
            assert given.server.count("/register") == 0
            assert given.server.asked[-1].form["client_secret"] == "hidden"
            given.resource.server = other.server
            with pytest.raises(ConfigurationNeeded, match="belongs to"):
                await opened.call_tool("t", b"{}")
        named = Given("me", "hidden", issuer="https://as.test")
        with pytest.raises(ConfigurationNeeded, match=r"as\.test"):
            await called(given, OAuth(given.url, settings(tmp_path / "x", given=named), browser.visitor()))
        assert b"hidden" not in b"".join(each.body for each in other.server.asked)


async def test_a_client_metadata_document_is_taken_where_the_server_reads_them(tmp_path: Path) -> None:
    async with world() as given:
        given.server.metadata["client_id_metadata_document_supported"] = True
        browser = Browser()
        known = Given(metadata_url="https://me.test/client.json")
        await called(given, OAuth(given.url, settings(tmp_path, given=known), browser.visitor()))
        assert browser.asked()[0]["client_id"] == "https://me.test/client.json"
        assert given.server.count("/register") == 0


async def test_a_client_that_the_server_forgot_is_registered_again(tmp_path: Path) -> None:
    async with world() as given:
        browser = Browser()
        await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        given.server.clients = {"somebody": {}}
        given.server.revoke()
        given.server.refresh.clear()
        await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        assert [each["client_id"] for each in browser.asked()] == ["client-1", "client-1", "client-2"]


async def test_a_client_asks_for_itself_without_anybody(tmp_path: Path) -> None:
    async with world() as given:
        given.server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        given.server.refreshing = False
        own = settings(tmp_path, grant="client_credentials", given=Given("me", "hidden"), scopes=("a",))
        async with client(given, OAuth(given.url, own)) as opened:
            given.server.revoke()
            await opened.call_tool("t", b"{}")
        assert given.server.grants() == ["client_credentials"] * 2
        form = given.server.asked[-1].form
        assert (form["scope"], form["resource"]) == ("a", given.url)
        assert given.server.asked[-1].headers["authorization"].startswith("Basic ")
        with pytest.raises(ConfigurationNeeded, match="client_secret"):
            await called(given, OAuth(given.url, settings(tmp_path / "x", grant="client_credentials")))


async def test_a_refused_code_is_an_error_in_words(tmp_path: Path) -> None:
    async with world() as given:
        refusal = Answer(400, {"error": "invalid_grant", "error_description": "too late"})
        given.server._give = lambda scope: refusal  # type: ignore[method-assign]
        with pytest.raises(TokenRefused, match="invalid_grant: too late"):
            await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))


async def test_an_endpoint_that_repeats_a_secret_is_not_repeated(tmp_path: Path) -> None:
    async with world() as given:
        await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        refresh = next(iter(given.server.refresh))
        given.server.revoke()
        said = Answer(400, {"error": "invalid_client", "error_description": f"no {refresh} here"})
        given.server._token = lambda form: said  # type: ignore[method-assign]
        flow = OAuth(given.url, settings(tmp_path))._flow
        with pytest.raises(TokenRefused, match="invalid_client") as error:
            await flow.refresh(flow.grants()[0])
        assert refresh not in error.value.message


async def _age(given: World, state: Path, seconds: float) -> None:
    """Make what is kept older."""
    grant = grants(given, state)[0]
    assert grant.tokens is not None
    assert grant.tokens.expires is not None
    tokens = msgspec.structs.replace(
        grant.tokens, issued=grant.tokens.issued - seconds, expires=grant.tokens.expires - seconds
    )
    await TokenStore(state / "oauth").save(msgspec.structs.replace(grant, tokens=tokens))


async def test_nothing_of_a_token_shows_in_errors_and_representations(tmp_path: Path) -> None:
    async with world() as given:
        auth = OAuth(given.url, settings(tmp_path, given=Given("me", "hidden")), Browser().visitor())
        given.server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        await called(given, auth)
        shown = repr((auth.grant, settings(tmp_path, private_key="hidden", given=Given("me", "hidden"))))
        assert "hidden" not in shown
        for token in (*given.server.access, *given.server.refresh):
            assert token not in shown

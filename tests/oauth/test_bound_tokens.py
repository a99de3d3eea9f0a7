"""Tokens bound to a key of the client's own (RFC 9449)."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jwt
import pytest

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, open_http
from delta_actors.mcp.oauth_store import TokenStore
from delta_protocol.mcp.oauth.errors import MetadataRefused, TokenRefused
from tests.oauth.world import Asked, Browser, World, world


def settings(state: Path, *, dpop: bool = True) -> OAuthSettings:
    return OAuthSettings(state, "wiki", dpop=dpop)


async def called(given: World, auth: OAuth) -> None:
    async with open_http(HttpParameters(given.url, auth=auth)) as client:
        await client.call_tool("t", b"{}")


def binding(given: World) -> None:
    given.server.metadata["dpop_signing_alg_values_supported"] = ["RS256", "ES256"]
    given.server.token_type = "DPoP"


def proof(asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims of a request's proof, whose signature holds."""
    text = asked.headers["dpop"]
    header = jwt.get_unverified_header(text)
    assert (header["typ"], header["alg"]) == ("dpop+jwt", "ES256")
    assert "d" not in header["jwk"]
    return header["jwk"], jwt.decode(text, jwt.PyJWK(header["jwk"]), ["ES256"])


async def test_every_request_proves_the_key_that_the_token_is_bound_to(tmp_path: Path) -> None:
    async with world() as given:
        binding(given)
        auth = OAuth(given.url, settings(tmp_path), Browser().visitor())
        async with open_http(HttpParameters(given.url, auth=auth)) as client:
            given.server.revoke()
            await client.call_tool("t", b"{}")
        assert given.server.grants() == ["authorization_code", "refresh_token"]
        tokens = [each for each in given.server.asked if each.path == "/token"]
        calls = [each for each in given.resource.asked if each.headers.get("authorization", "").startswith("DPoP ")]
        proofs = [proof(each) for each in (*tokens, *calls)]
        assert len({str(key) for key, _ in proofs}) == 1
        assert len({claims["jti"] for _, claims in proofs}) == len(proofs)
        assert {claims["htm"] for _, claims in proofs} == {"POST"}
        for asked, (_, claims) in zip(calls, proofs[2:], strict=True):
            token = asked.headers["authorization"].removeprefix("DPoP ")
            digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
            assert (claims["htu"], claims["ath"]) == (given.url, digest)
        assert {claims["htu"] for _, claims in proofs[:2]} == {f"{given.server.origin}/token"}
        grant = auth.grant
        assert grant is not None
        assert grant.key is not None
        assert "PRIVATE" not in repr(grant)


async def test_a_bearer_token_in_place_of_a_bound_one_is_refused(tmp_path: Path) -> None:
    async with world() as given:
        binding(given)
        given.server.token_type = "Bearer"
        with pytest.raises(TokenRefused, match="kind dpop"):
            await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))


async def test_a_server_that_binds_nothing_is_refused(tmp_path: Path) -> None:
    async with world() as given:
        with pytest.raises(MetadataRefused, match="binds tokens"):
            await called(given, OAuth(given.url, settings(tmp_path), Browser().visitor()))
        assert given.server.count("/token") == 0


async def test_tokens_from_before_it_was_asked_for_do_not_count(tmp_path: Path) -> None:
    async with world() as given:
        await called(given, OAuth(given.url, settings(tmp_path, dpop=False), Browser().visitor()))
        binding(given)
        browser = Browser()
        await called(given, OAuth(given.url, settings(tmp_path), browser.visitor()))
        assert len(browser.opened) == 1
        assert len(given.server.clients) == 1
        assert TokenStore(tmp_path).grants("wiki", given.url)[0].key is not None

"""The client under test in the suite's `auth/*` scenarios: connect, list, call, and follow whatever is demanded.

The person is played by a request for the authorisation page, whose redirect is taken as the answer.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, open_http
from delta_actors.mcp.oauth_redirect import Visit
from delta_actors.mcp.oauth_settings import GrantKind, IdentityProvider
from delta_protocol.mcp.oauth.registration import Given

PREFIX = "auth/"
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The client id that the suite knows by its metadata document."""


class _Person:
    """Says yes to every page."""

    redirect_uri = "http://localhost:3000/callback"

    async def follow(self, url: str, state: str) -> str:  # noqa: ARG002 - a listener would tell answers apart by it
        async with httpx.AsyncClient(timeout=30) as http:
            response = await http.get(url)
        return urlsplit(response.headers["location"]).query


@asynccontextmanager
async def _person() -> AsyncGenerator[Visit]:
    yield _Person()


async def play(scenario: str, url: str, era: Literal["auto", "legacy", "modern"], context: dict[str, Any]) -> None:
    """Play a scenario. Raises `OAuthError` where the client refuses to go on, as some scenarios want."""
    with tempfile.TemporaryDirectory() as folder:
        auth = OAuth(url, _settings(scenario, context, Path(folder)), _person)
        async with open_http(HttpParameters(url, era=era, auth=auth)) as client:
            await client.list_tools()
            await client.call_tool("test-tool", b"{}")


def _settings(scenario: str, context: dict[str, Any], folder: Path) -> OAuthSettings:
    key: str | None = context.get("private_key_pem")
    given = Given(
        context.get("client_id"),
        context.get("client_secret"),
        has_key=key is not None,
        issuer=context.get("issuer"),
        metadata_url=METADATA_URL,
    )
    word: str | None = context.get("valid_jwt") or context.get("idp_id_token")
    provider = None
    if "idp_token_endpoint" in context:
        provider = IdentityProvider(context["idp_token_endpoint"], context["idp_client_id"])
    grant: GrantKind = "authorization_code"
    if scenario.startswith("auth/client-credentials"):
        grant = "client_credentials"
    elif word is not None:
        grant = "jwt_bearer"
        (folder / "word.jwt").write_text(word)
    return OAuthSettings(
        folder,
        scenario,
        grant,
        given,
        key,
        context.get("signing_algorithm", "ES256"),
        dpop=scenario.startswith("auth/dpop"),
        assertion=folder / "word.jwt",
        provider=provider,
    )

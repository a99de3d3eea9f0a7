"""What a client asks with when nobody signs in: its credentials, a workload's JWT, a company's identity provider."""

from __future__ import annotations

from delta_actors.mcp.oauth_fetch import Fetcher
from delta_actors.mcp.oauth_settings import OAuthSettings
from delta_protocol.mcp.oauth import exchange, tokens
from delta_protocol.mcp.oauth.errors import ConfigurationNeeded, TokenRefused
from delta_protocol.mcp.oauth.tokens import Client, Method

_PROVIDER = "the identity provider"


async def own_form(
    settings: OAuthSettings, fetch: Fetcher, issuer: str, resource: str, scopes: tuple[str, ...]
) -> dict[str, str]:
    """Return the request for a token of `issuer`. Raises `OAuthError`.

    The assertion's file is read each time: whoever writes it renews it.
    """
    if settings.grant == "client_credentials":
        return tokens.client_credentials_form(resource, scopes)
    if settings.assertion is None:
        raise ConfigurationNeeded("jwt_bearer needs an `assertion_file`")
    try:
        assertion = settings.assertion.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationNeeded(f"the assertion file {settings.assertion} cannot be read: {error}") from None
    provider = settings.provider
    if provider is not None:
        form = exchange.exchange_form(assertion, issuer, resource, scopes)
        method: Method = "client_secret_basic" if provider.client_secret is not None else "none"
        sent, headers = tokens.authenticated(form, Client(provider.client_id, method, provider.client_secret), None)
        reply = await fetch.post_form(provider.token_endpoint, _PROVIDER, sent, headers)
        try:
            assertion = exchange.read_exchanged(reply.status, reply.body)
        except TokenRefused as error:
            raise TokenRefused(tokens.without(sent, error.message), error.error) from None
    return exchange.jwt_bearer_form(assertion, resource, scopes)

"""From a server's URL to its authorisation server: RFC 9728, then RFC 8414 or OpenID Connect Discovery."""

from __future__ import annotations

from dataclasses import dataclass

from delta_actors.mcp.oauth_fetch import Fetcher
from delta_protocol.mcp.oauth import metadata, urls
from delta_protocol.mcp.oauth.errors import ConfigurationNeeded, MetadataRefused, OAuthError
from delta_protocol.mcp.oauth.metadata import AuthorizationServer, ProtectedResource

_RESOURCE = "the protected resource metadata"
_SERVER = "the authorisation server metadata"


@dataclass(frozen=True, slots=True)
class Found:
    """Whom to ask for a token, and for what: `resource.resource` goes into every request as it stands."""

    resource: ProtectedResource
    server: AuthorizationServer


async def discover(fetch: Fetcher, server: str, named: str | None, issuer: str | None) -> Found:
    """Return who gives tokens for `server`. `named` is the URL of a challenge, `issuer` the only one that will do.

    Raises `OAuthError`; `MetadataRefused` for a document that leads elsewhere, after which no other is tried.
    """
    resource = await _resource(fetch, server, named)
    issuers = resource.authorization_servers[: metadata.MAX_SERVERS]
    if issuer is not None:
        if issuer not in issuers:
            raise ConfigurationNeeded(
                f"{server} asks for tokens of {', '.join(issuers)}, but its `issuer` is configured as {issuer}"
            )
        issuers = (issuer,)
    faults: list[OAuthError] = []
    for each in issuers:
        try:
            return Found(resource, await _server(fetch, each))
        except OAuthError as error:
            faults.append(error)
    raise faults[0]


async def _resource(fetch: Fetcher, server: str, named: str | None) -> ProtectedResource:
    """Return the first document found: where the challenge says, at the path's place, at the root (spec 1.16)."""
    places = dict.fromkeys((*((named,) if named else ()), *urls.resource_urls(server)))
    for place in places:
        document = await _document(fetch, place, _RESOURCE)
        if document is not None:
            return metadata.read_protected_resource(document, server)
    # Servers from before RFC 9728 are their own authorisation server, at their root (spec 2025-03-26).
    return ProtectedResource(urls.canonical_resource(server), (urls.origin(server),))


async def _server(fetch: Fetcher, issuer: str) -> AuthorizationServer:
    for place in urls.issuer_urls(issuer):
        document = await _document(fetch, place, _SERVER)
        if document is not None:
            return metadata.read_authorization_server(document, issuer)
    raise MetadataRefused(f"{issuer} has no metadata at {' or '.join(urls.issuer_urls(issuer))}")


async def _document(fetch: Fetcher, place: str, what: str) -> bytes | None:
    """Return the document at a place, None where there is none. Raises `OAuthError` where the server is in trouble:
    what another place says then may not be what this one would have said."""
    reply = await fetch.get(place, what)
    if reply.status == 429 or reply.status >= 500:
        raise OAuthError(f"{what} cannot be had now: {place} answers with HTTP {reply.status}")
    return reply.body if reply.status == 200 else None

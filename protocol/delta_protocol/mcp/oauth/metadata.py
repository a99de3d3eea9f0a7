"""The two documents that lead to a token: of the protected resource (RFC 9728) and of its authorisation server."""

from __future__ import annotations

import msgspec

from delta_protocol.mcp.oauth.errors import MetadataRefused
from delta_protocol.mcp.oauth.urls import check_url, covers

MAX_SERVERS = 4
"""How many authorisation servers of a resource are looked at."""


class ProtectedResource(msgspec.Struct, frozen=True):
    """What is read of RFC 9728 2."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None


class AuthorizationServer(msgspec.Struct, frozen=True):
    """What is read of RFC 8414 2, with RFC 9207 3, RFC 9449 5.1 and client id metadata documents."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    client_id_metadata_document_supported: bool | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None


def read_protected_resource(text: bytes, server: str) -> ProtectedResource:
    """Return the metadata that speaks for `server`.

    Raises `MetadataRefused`: no such document, another resource's (RFC 9728 3.3), no usable authorisation server.
    """
    try:
        document = msgspec.json.decode(text, type=ProtectedResource)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MetadataRefused(f"the protected resource metadata of {server} cannot be read: {error}") from None
    if not covers(document.resource, server):
        raise MetadataRefused(f"the protected resource metadata is for {document.resource[:200]!r}, not for {server}")
    if not document.authorization_servers:
        raise MetadataRefused(f"the protected resource metadata of {server} names no authorisation server")
    for issuer in document.authorization_servers[:MAX_SERVERS]:
        check_url(issuer, "the authorisation server of the protected resource metadata", query=False)
    return document


def read_authorization_server(text: bytes, issuer: str) -> AuthorizationServer:
    """Return the metadata of `issuer`, whose own `issuer` must be the same to the letter (RFC 8414 3.3).

    Raises `MetadataRefused`, also for endpoints that are neither https nor of this machine.
    """
    try:
        document = msgspec.json.decode(text, type=AuthorizationServer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MetadataRefused(f"the authorisation server metadata of {issuer} cannot be read: {error}") from None
    if document.issuer != issuer:
        raise MetadataRefused(f"the metadata at {issuer} is of the issuer {document.issuer[:200]!r}")
    check_url(document.token_endpoint, "the token endpoint")
    for endpoint, what in (
        (document.authorization_endpoint, "the authorisation endpoint"),
        (document.registration_endpoint, "the registration endpoint"),
    ):
        if endpoint is not None:
            check_url(endpoint, what)
    return document


def check_code_flow(server: AuthorizationServer) -> str:
    """Return the authorisation endpoint. Raises `MetadataRefused` where there is none, or no PKCE with S256 (M)."""
    if server.authorization_endpoint is None:
        raise MetadataRefused(f"{server.issuer} has no authorisation endpoint")
    if "S256" not in (server.code_challenge_methods_supported or ()):
        raise MetadataRefused(f"{server.issuer} does not say that it checks PKCE with S256, so a code could be stolen")
    return server.authorization_endpoint

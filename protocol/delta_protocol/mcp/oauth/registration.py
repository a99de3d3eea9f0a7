"""How a client gets its id, in the order of spec 1.16: given, a metadata document's URL, or dynamic registration."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from delta_protocol.mcp.oauth.errors import ConfigurationNeeded, TokenRefused
from delta_protocol.mcp.oauth.metadata import AuthorizationServer
from delta_protocol.mcp.oauth.tokens import Client, Method, choose_method, refusal

CLIENT_NAME = "delta-supervisor"
_PREFERRED: tuple[Method, ...] = ("none", "client_secret_basic", "client_secret_post")
"""A program on somebody's machine keeps no secret, so it asks for none where it may (RFC 8252 8.5)."""


class Given(msgspec.Struct, frozen=True):
    """What the configuration says about us. `issuer` is the only server that a given client is shown to."""

    client_id: str | None = None
    client_secret: str | None = None
    has_key: bool = False
    method: Method | None = None
    issuer: str | None = None
    metadata_url: str | None = None

    def __repr__(self) -> str:
        return f"Given({self.client_id!r}, {self.issuer!r})"


class _Registered(msgspec.Struct):
    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None


def known_client(given: Given, server: AuthorizationServer) -> Client | None:
    """Return who we are to `server` without asking it, None where we must register.

    Raises `ConfigurationNeeded` where that is not possible either.
    """
    if given.client_id is not None:
        secret = given.client_secret is not None
        supported = server.token_endpoint_auth_methods_supported
        method = given.method or choose_method(supported, secret=secret, key=given.has_key)
        return Client(given.client_id, method, given.client_secret)
    if server.client_id_metadata_document_supported and given.metadata_url is not None:
        return Client(check_metadata_url(given.metadata_url))
    if server.registration_endpoint is not None:
        return None
    document = " or a `client_metadata_url`" if server.client_id_metadata_document_supported else ""
    raise ConfigurationNeeded(
        f"{server.issuer} registers no clients by itself: register one there, and configure its `client_id`{document}"
    )


def check_metadata_url(url: str) -> str:
    """Return a URL that can be a client id: https with a path. Raises `ConfigurationNeeded`."""
    parts = urlsplit(url)
    if (
        parts.scheme != "https"
        or not parts.hostname
        or parts.path in ("", "/")
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ConfigurationNeeded(f"`client_metadata_url` must be an https URL with a path: {url[:200]!r}")
    return url


def registration_request(
    server: AuthorizationServer, redirect_uri: str, scopes: tuple[str, ...], application_type: Literal["native", "web"]
) -> bytes:
    """Return the body of a registration (RFC 7591 2, with the `application_type` of OpenID Connect)."""
    document = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": _method_for(server),
        "application_type": application_type,
    }
    return msgspec.json.encode({**document, "scope": " ".join(scopes)} if scopes else document)


def read_registration(status: int, text: bytes, server: AuthorizationServer, redirect_uri: str) -> Client:
    """Return the registered client. Raises `TokenRefused`."""
    if status not in (200, 201):
        raise refusal(status, text, "the registration endpoint")
    try:
        answer = msgspec.json.decode(text, type=_Registered)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TokenRefused(f"the registration endpoint's answer cannot be read: {error}") from None
    asked: str = answer.token_endpoint_auth_method or _method_for(server)
    method = _preferred((asked,))
    if method != "none" and answer.client_secret is None:
        method = "none"
    # 0 means that it never expires (RFC 7591 3.2.1).
    expires = answer.client_secret_expires_at or None
    return Client(answer.client_id, method, answer.client_secret, expires, (redirect_uri,), registered=True)


def _method_for(server: AuthorizationServer) -> Method:
    return _preferred(server.token_endpoint_auth_methods_supported or ("client_secret_basic",))


def _preferred(known: Container[str]) -> Method:
    for method in _PREFERRED:
        if method in known:
            return method
    return "none"

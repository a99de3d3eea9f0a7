"""The token endpoint: grants, client authentication, answers (RFC 6749 2.3, 4, 5, 6; RFC 7523; RFC 8707)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote_plus

import msgspec

from delta_protocol.mcp.oauth.authorize import Pending
from delta_protocol.mcp.oauth.errors import ConfigurationNeeded, OAuthError, TokenRefused

Method = Literal["client_secret_basic", "client_secret_post", "none", "private_key_jwt"]
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_CONFIDENTIAL = (
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
)
EARLY = 60.0
"""Seconds before its end at which a token is refreshed (acceptance 61), or half its life where that is less."""


class Client(msgspec.Struct, frozen=True):
    """Who we are to one authorisation server. `registered`: by ourselves, so it may be done again."""

    client_id: str
    method: Method = "none"
    client_secret: str | None = None
    secret_expires: float | None = None
    redirect_uris: tuple[str, ...] = ()
    registered: bool = False

    def __repr__(self) -> str:
        return f"Client({self.client_id!r}, {self.method})"


class Tokens(msgspec.Struct, frozen=True):
    """What the token endpoint gave. Times are seconds since the epoch; `expires` is None where it did not say."""

    access_token: str
    refresh_token: str | None = None
    issued: float = 0.0
    expires: float | None = None
    scope: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"Tokens(expires={self.expires})"

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a new one. Without `expires_in` a token is used until it is refused."""
        if self.expires is None:
            return False
        return now >= self.expires - min(EARLY, (self.expires - self.issued) / 2)

    def is_over(self, now: float) -> bool:
        """Tell whether it has certainly ended."""
        return self.expires is not None and now >= self.expires


class _Answer(msgspec.Struct):
    access_token: str
    token_type: str = ""
    expires_in: float | str | None = None
    refresh_token: str | None = None
    scope: str | None = None


class _Error(msgspec.Struct):
    error: str = ""
    error_description: str | None = None


def code_form(code: str, pending: Pending) -> dict[str, str]:
    """Return the request that exchanges a code (RFC 6749 4.1.3, RFC 7636 4.5)."""
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
        "resource": pending.resource,
    }


def refresh_form(refresh_token: str, resource: str) -> dict[str, str]:
    """Return the request for a new token with the scopes of the old one (RFC 6749 6)."""
    return {"grant_type": "refresh_token", "refresh_token": refresh_token, "resource": resource}


def client_credentials_form(resource: str, scopes: tuple[str, ...]) -> dict[str, str]:
    """Return the request of a client that acts for itself (RFC 6749 4.4.2)."""
    form = {"grant_type": "client_credentials", "resource": resource}
    return {**form, "scope": " ".join(scopes)} if scopes else form


def authenticated(
    form: Mapping[str, str], client: Client, assertion: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form and the headers of a request in which the client says who it is.

    `assertion` is the signed JWT of `private_key_jwt`. Raises `ConfigurationNeeded` where what the method needs is
    not there.
    """
    if client.method == "none":
        return {**form, "client_id": client.client_id}, {}
    if client.method == "private_key_jwt":
        if assertion is None:
            raise ConfigurationNeeded("the authorisation server asks for private_key_jwt: configure `private_key`")
        signed = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        return {**form, "client_id": client.client_id, **signed}, {}
    if client.client_secret is None:
        raise ConfigurationNeeded(f"the authorisation server asks for {client.method}: configure `client_secret`")
    if client.method == "client_secret_post":
        return {**form, "client_id": client.client_id, "client_secret": client.client_secret}, {}
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    return dict(form), {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def choose_method(supported: tuple[str, ...] | None, *, secret: bool, key: bool) -> Method:
    """Return how a client with these means authenticates. `supported` None means what RFC 8414 2 does: basic."""
    known = supported or ("client_secret_basic",)
    if key:
        return "private_key_jwt"
    if not secret:
        return "none"
    return (
        "client_secret_post"
        if "client_secret_basic" not in known and "client_secret_post" in known
        else ("client_secret_basic")
    )


def error_of(status: int, text: bytes) -> str:
    """Return the error code of an answer, empty where it has none."""
    return "" if status == 200 else refusal(status, text, "").error


def read_tokens(
    status: int, text: bytes, now: float, before: Tokens | None = None, *, kind: Literal["bearer", "dpop"] = "bearer"
) -> Tokens:
    """Return the tokens of an answer; `before` lends its refresh token where none comes (RFC 6749 6).

    Only a token of the `kind` that was asked for is taken: a bearer token in place of a bound one would be a downgrade.
    Raises `TokenRefused`, and plain `OAuthError` where the server only cannot answer now.
    """
    if status == 429 or status >= 500:
        raise OAuthError(f"the token endpoint cannot answer now (HTTP {status})")
    if status != 200:
        raise refusal(status, text, "the token endpoint")
    try:
        answer = msgspec.json.decode(text, type=_Answer)
        lifetime = None if answer.expires_in is None else float(answer.expires_in)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise TokenRefused("the token endpoint answered without a token") from None
    if answer.token_type.lower() != kind or not _is_token(answer.access_token):
        raise TokenRefused(f"the token endpoint gave a token that is not of the kind {kind}")
    refresh = answer.refresh_token or (before.refresh_token if before is not None else None)
    scope = tuple(answer.scope.split()) if answer.scope is not None else (before.scope if before is not None else None)
    # A lifetime of nothing, or no number, says nothing: use the token until it is refused.
    expires = now + lifetime if lifetime is not None and 0 < lifetime < 1e10 else None
    return Tokens(answer.access_token, refresh, now, expires, scope)


def refusal(status: int, text: bytes, who: str) -> TokenRefused:
    """Return the error of an endpoint's answer, without what could be a secret (RFC 6749 5.2, RFC 7591 3.2.2)."""
    try:
        said = msgspec.json.decode(text, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = _Error()
    words = ": ".join(part for part in (said.error, said.error_description or "") if part) or f"HTTP {status}"
    shown = "".join(each if each.isprintable() else " " for each in words[:300])
    return TokenRefused(f"{who} refused: {shown}", said.error)


def without(sent: Mapping[str, str], message: str) -> str:
    """Return an endpoint's words without what it was sent in confidence, which some repeat."""
    for name in _CONFIDENTIAL:
        if value := sent.get(name, ""):
            message = message.replace(value, f"({name})")
    return message


def _is_token(text: str) -> bool:
    """RFC 6750 2.1: nothing else may stand in a header."""
    return bool(text) and text.isascii() and all(33 <= ord(each) < 127 for each in text)

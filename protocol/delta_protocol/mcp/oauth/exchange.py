"""Tokens for somebody else's word: a JWT of a workload (RFC 7523 2.1), or an identity assertion that the company's
identity provider gives for a sign-in (RFC 8693; the id-jag of enterprise-managed authorisation)."""

from __future__ import annotations

import msgspec

from delta_protocol.mcp.oauth.errors import OAuthError, TokenRefused
from delta_protocol.mcp.oauth.tokens import refusal

_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class _Exchanged(msgspec.Struct):
    access_token: str
    issued_token_type: str


def jwt_bearer_form(assertion: str, resource: str, scopes: tuple[str, ...]) -> dict[str, str]:
    """Return the request that gives a JWT for a token (RFC 7523 2.1)."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": assertion,
        "resource": resource,
    }
    return {**form, "scope": " ".join(scopes)} if scopes else form


def exchange_form(id_token: str, issuer: str, resource: str, scopes: tuple[str, ...]) -> dict[str, str]:
    """Return the request to the identity provider for an assertion that `issuer` takes for `resource`."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": _ID_JAG,
        "subject_token": id_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": issuer,
        "resource": resource,
    }
    return {**form, "scope": " ".join(scopes)} if scopes else form


def read_exchanged(status: int, text: bytes) -> str:
    """Return the assertion of the identity provider's answer. Raises `TokenRefused`, `OAuthError` for a later try."""
    if status == 429 or status >= 500:
        raise OAuthError(f"the identity provider cannot answer now (HTTP {status})")
    if status != 200:
        raise refusal(status, text, "the identity provider")
    try:
        answer = msgspec.json.decode(text, type=_Exchanged)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise TokenRefused("the identity provider answered without a token") from None
    if answer.issued_token_type != _ID_JAG:
        raise TokenRefused("the identity provider gave a token of another kind than an identity assertion")
    return answer.access_token

"""The authorisation request and its response: PKCE (RFC 7636), resource (RFC 8707), state, issuer (RFC 9207)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from delta_protocol.mcp.oauth.errors import ResponseRefused


class Pending(msgspec.Struct, frozen=True):
    """A request on its way, recorded before anybody is redirected. `state` and `verifier` are random."""

    state: str
    verifier: str
    issuer: str
    issuer_sent: bool
    """Whether the server promises `iss` in its response."""
    client_id: str
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...]


def challenge_of(verifier: str) -> str:
    """Return the S256 code challenge (RFC 7636 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def authorization_url(endpoint: str, pending: Pending) -> str:
    """Return the URL to open for the person; a query that the endpoint has stays (RFC 6749 3.1)."""
    parameters = {
        "response_type": "code",
        "client_id": pending.client_id,
        "redirect_uri": pending.redirect_uri,
        "state": pending.state,
        "code_challenge": challenge_of(pending.verifier),
        "code_challenge_method": "S256",
        "resource": pending.resource,
    }
    if pending.scopes:
        parameters["scope"] = " ".join(pending.scopes)
    if "offline_access" in pending.scopes:
        # OpenID Connect Core 11: without the consent page the scope is ignored.
        parameters["prompt"] = "consent"
    parts = urlsplit(endpoint)
    query = "&".join(part for part in (parts.query, urlencode(parameters)) if part)
    return urlunsplit(parts._replace(query=query))


def read_response(query: str, pending: Pending) -> str:
    """Return the code of an authorisation response.

    Raises `ResponseRefused`. The issuer is checked before anything else is looked at or shown, character by character
    (RFC 9207 2.4): a response of another server may say what it likes.
    """
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in values:
            raise ResponseRefused(f"the authorisation response has {name[:40]!r} twice")
        values[name] = value
    if not hmac.compare_digest(values.get("state", "").encode(), pending.state.encode()):
        raise ResponseRefused("the authorisation response is not the answer to this request: its state differs")
    issuer = values.get("iss")
    if issuer is None and pending.issuer_sent:
        raise ResponseRefused(f"the authorisation response does not name its issuer, as {pending.issuer} promises to")
    if issuer is not None and issuer != pending.issuer:
        raise ResponseRefused(f"the authorisation response comes from another issuer than {pending.issuer}")
    if "error" in values:
        detail = values.get("error_description", "")
        raise ResponseRefused(
            f"{pending.issuer} refused: {_shown(values['error'])}{': ' if detail else ''}{_shown(detail)}"
        )
    if not values.get("code"):
        raise ResponseRefused(f"the authorisation response of {pending.issuer} has no code")
    return values["code"]


def _shown(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text[:300])

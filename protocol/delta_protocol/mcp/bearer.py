"""What a server protected by bearer tokens reads and says over HTTP: the `Authorization` header, the challenges of 401
and 403, and its own metadata document (RFC 6750, RFC 9728, spec 1.16)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from delta_protocol.errors import Invalid
from delta_protocol.mcp.oauth import urls
from delta_protocol.mcp.oauth.errors import MetadataRefused
from delta_protocol.mcp.oauth.scopes import OFFLINE, union

WELL_KNOWN = "/.well-known/oauth-protected-resource"
REALM = "mcp"

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_UNQUOTABLE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_LONGEST_DESCRIPTION = 300


def bearer_token(values: Sequence[str]) -> str | None:
    """Return the token of the `Authorization` lines; None for no credentials, or those of another scheme.

    The scheme's case does not matter (RFC 9110 11.1). Raises `Invalid` for several lines and for a token with blanks or
    characters that no token has: the request is malformed (RFC 6750 3.1, `invalid_request`).
    """
    if len(values) > 1:
        raise Invalid("the Authorization header must be there once")
    scheme, _, token = (values[0] if values else "").strip(" \t").partition(" ")
    token = token.strip(" \t")
    if scheme.lower() != "bearer" or not token:
        return None
    if _VISIBLE.fullmatch(token) is None:
        raise Invalid("the bearer token is malformed")
    return token


def challenge(
    realm: str = REALM,
    *,
    resource_metadata: str = "",
    scopes: Iterable[str] = (),
    error: str = "",
    description: str = "",
) -> str:
    """Return a `WWW-Authenticate` value (RFC 6750 3, RFC 9728 5.1). What is empty is left out.

    Characters that the grammar forbids are replaced, scopes with such characters and `offline_access` left out.
    """
    parts = {
        "realm": realm,
        "resource_metadata": resource_metadata,
        "error": error,
        "error_description": description[:_LONGEST_DESCRIPTION],
        "scope": " ".join(shown_scopes(scopes)),
    }
    return "Bearer " + ", ".join(f'{name}="{_quotable(text)}"' for name, text in parts.items() if text)


def prm_document(
    resource: str,
    authorization_servers: Sequence[str],
    *,
    scopes_supported: Iterable[str] = (),
    name: str = "",
    documentation: str = "",
    signing_algorithms: Sequence[str] = (),
) -> bytes:
    """Return the metadata of a protected resource as JSON text (RFC 9728 2). Tokens come in the header alone.

    `signing_algorithms` are those of *responses* that the resource signs, not of tokens.
    """
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(authorization_servers),
        "bearer_methods_supported": ["header"],
    }
    optional = {
        "scopes_supported": list(shown_scopes(scopes_supported)),
        "resource_name": name,
        "resource_documentation": documentation,
        "resource_signing_alg_values_supported": list(signing_algorithms),
    }
    return msgspec.json.encode(document | {member: value for member, value in optional.items() if value})


def shown_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that a client may be told: each once, well formed, without `offline_access` (spec 1.16)."""
    return tuple(scope for scope in union(scopes) if scope != OFFLINE and _SCOPE.fullmatch(scope))


def missing_scopes(
    granted: Iterable[str], needed: Iterable[str], implied: Mapping[str, Sequence[str]] | None = None
) -> tuple[str, ...]:
    """Return what is needed and not granted. `implied`: which scopes a scope includes, theirs as well (spec 1.16)."""
    held: set[str] = set()
    open_ = list(granted)
    while open_:
        scope = open_.pop()
        if scope not in held:
            held.add(scope)
            open_.extend((implied or {}).get(scope, ()))
    return tuple(scope for scope in union(needed) if scope not in held)


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """What a server says of itself to clients without a good token.

    `resource`: its public URL, empty where no authorisation server gives out tokens for it; `scopes`: needed for
    everything; `implied`: see `missing_scopes`. `document` is what `metadata_url` shows. Make one with `describe`.
    """

    realm: str = REALM
    resource: str = ""
    scopes: tuple[str, ...] = ()
    implied: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    metadata_url: str = ""
    document: bytes = b""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The name under which clients reach it, with its port where that is not the scheme's own."""
        return (urlsplit(urls.canonical_resource(self.resource)).netloc,) if self.resource else ()

    def challenge(self, error: str = "", description: str = "", scopes: Iterable[str] = ()) -> str:
        """Return the challenge of a 401 or 403; `scopes` beside those that everything needs."""
        return challenge(
            self.realm,
            resource_metadata=self.metadata_url,
            scopes=union(self.scopes, scopes),
            error=error,
            description=description,
        )

    def missing(self, granted: Iterable[str], needed: Iterable[str] = ()) -> tuple[str, ...]:
        """Return which of the scopes for everything, and of `needed`, were not granted."""
        return missing_scopes(granted, union(self.scopes, needed), self.implied)

    def document_at(self, path: str, endpoint: str) -> bytes | None:
        """Return the metadata where `path` is one of its places, None elsewhere.

        The root form, and the forms with the path of the public URL and of the local `endpoint` inserted (a proxy may
        map one to the other); a final slash makes no difference (RFC 9728 3.1, acceptance 65).
        """
        if not self.document or not path.startswith(WELL_KNOWN):
            return None
        inserted = path[len(WELL_KNOWN) :].rstrip("/")
        known = {"", endpoint.rstrip("/"), urlsplit(self.resource).path.rstrip("/")}
        return self.document if inserted in known else None


def describe(
    resource: str,
    issuers: Sequence[str],
    *,
    realm: str = REALM,
    scopes: Sequence[str] = (),
    scopes_supported: Sequence[str] | None = None,
    implied: Mapping[str, Sequence[str]] | None = None,
    name: str = "",
    documentation: str = "",
) -> ProtectedResource:
    """Return what a server whose public URL is `resource` says of itself. `resource` stays as it is given.

    Raises `ValueError` for URLs that are neither https nor of this machine, or have a fragment or a user part, for no
    issuer at all, and for malformed scopes.
    """
    if not issuers:
        raise ValueError("name at least one issuer of tokens")
    try:
        urls.check_url(resource, "the public URL")
        for issuer in issuers:
            urls.check_url(issuer, "the issuer", query=False)
        metadata_url = urls.resource_urls(resource)[0]
    except MetadataRefused as error:
        raise ValueError(error.message) from None
    check_scopes((*scopes, *(scopes_supported or ())))
    supported = scopes if scopes_supported is None else scopes_supported
    document = prm_document(resource, issuers, scopes_supported=supported, name=name, documentation=documentation)
    return ProtectedResource(realm, resource, tuple(scopes), dict(implied or {}), metadata_url, document)


def check_scopes(scopes: Iterable[str]) -> None:
    """Raise `ValueError` for a scope that could not be written into a challenge (RFC 6749 3.3)."""
    for scope in scopes:
        if _SCOPE.fullmatch(scope) is None:
            raise ValueError(f"{scope!r} is no scope: visible ASCII without blanks, quotes and backslashes")


def _quotable(text: str) -> str:
    return _UNQUOTABLE.sub("?", text.replace('"', "'"))

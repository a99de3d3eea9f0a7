"""URL rules of the OAuth documents: where they are, which may be used, and which resource covers which URL."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit, urlunsplit

from delta_protocol.mcp.oauth.errors import MetadataRefused

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PROTECTED_RESOURCE = "oauth-protected-resource"
_AUTHORIZATION_SERVER = "oauth-authorization-server"
_OPENID = "openid-configuration"


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address literal means this machine, whatever DNS says (RFC 6761 6.3)."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_private(host: str) -> bool:
    """Tell whether a host is this machine or a literal address of a private network, so that its owner means it."""
    if is_loopback(host):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_private
    except ValueError:
        return False


def check_url(url: str, what: str, *, query: bool = True) -> str:
    """Return `url` if secrets may be sent there: https, or http to this machine; no user part, no fragment.

    Raises `MetadataRefused` naming `what` it was (RFC 8414 2, RFC 9728 1.2, OAuth 2.1 1.5).
    """
    parts = _split(url, what)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise MetadataRefused(f"{what} is no https URL: {_shown(url)}")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise MetadataRefused(f"{what} must be https: {_shown(url)}")
    if "@" in parts.netloc or "#" in url:
        raise MetadataRefused(f"{what} has a user part or a fragment: {_shown(url)}")
    if parts.query and not query:
        raise MetadataRefused(f"{what} has a query: {_shown(url)}")
    return url


def canonical_resource(server: str) -> str:
    """Return the resource identifier of a server's URL: scheme and host in lower case, no fragment, and no slash
    where the path is nothing else (RFC 8707 2, spec 1.16)."""
    parts = _split(server, "the server's URL")
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((parts.scheme, _authority(parts), path, parts.query, ""))


def resource_urls(server: str) -> tuple[str, ...]:
    """Return where the server's metadata may be: with its path inserted, then at the root (RFC 9728 3.1)."""
    parts = _split(server, "the server's URL")
    inserted = _inserted(parts, _PROTECTED_RESOURCE)
    root = urlunsplit((parts.scheme, _authority(parts), f"/.well-known/{_PROTECTED_RESOURCE}", "", ""))
    return (inserted,) if inserted == root else (inserted, root)


def issuer_urls(issuer: str) -> tuple[str, ...]:
    """Return where an issuer's metadata may be, in order: RFC 8414 3.1 with the path inserted, OpenID Connect with it
    inserted, and OpenID Connect Discovery 4.1 with it before the well-known part."""
    parts = _split(issuer, "the issuer")
    urls = [_inserted(parts, _AUTHORIZATION_SERVER), _inserted(parts, _OPENID)]
    path = parts.path.rstrip("/")
    if path:
        urls.append(urlunsplit((parts.scheme, _authority(parts), f"{path}/.well-known/{_OPENID}", "", "")))
    return tuple(urls)


def origin(url: str) -> str:
    """Return scheme, host and port of a URL, the issuer of servers from before RFC 9728 (spec 2025-03-26)."""
    parts = _split(url, "the server's URL")
    return f"{parts.scheme}://{_authority(parts)}"


def covers(resource: str, server: str) -> bool:
    """Tell whether metadata for `resource` speaks for `server`: the same URL, or one above it on the same origin.

    RFC 9728 3.3 asks for identity; servers publish their origin for all their endpoints, and the root form of the
    metadata means just that. A final slash makes no difference; a dot segment does (it could climb).
    """
    try:
        ours, theirs = _split(server, "the server's URL"), _split(resource, "the resource")
    except MetadataRefused:
        return False
    if "#" in resource or "@" in theirs.netloc or _dotted(theirs.path) or _dotted(ours.path):
        return False
    if (ours.scheme, _authority(ours)) != (theirs.scheme, _authority(theirs)):
        return False
    if theirs.query and theirs.query != ours.query:
        return False
    prefix, path = theirs.path.rstrip("/"), ours.path.rstrip("/")
    return path == prefix or path.startswith(prefix + "/")


def _inserted(parts: SplitResult, name: str) -> str:
    path = f"/.well-known/{name}{parts.path.rstrip('/')}"
    return urlunsplit((parts.scheme, _authority(parts), path, parts.query, ""))


def _dotted(path: str) -> bool:
    return any(part.lower().replace("%2e", ".") in (".", "..") for part in path.split("/"))


def _authority(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    name = f"[{host}]" if ":" in host else host
    port = parts.port
    return name if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f"{name}:{port}"


def _split(url: str, what: str) -> SplitResult:
    if not url.isascii() or any(ord(each) <= 32 or ord(each) == 127 or each == "\\" for each in url):
        raise MetadataRefused(f"{what} is no URL: {_shown(url)}")
    try:
        parts = urlsplit(url)
        # Reading the port is what checks it.
        _ = parts.port
    except ValueError:
        raise MetadataRefused(f"{what} is no URL: {_shown(url)}") from None
    return parts


def _shown(url: str) -> str:
    """Return a URL for a message: without a query or user part, which may be a secret, and of reasonable length."""
    place, _, _ = url.partition("?")
    scheme, divider, rest = place.partition("://")
    authority, slash, path = rest.partition("/")
    return ascii(f"{scheme}{divider}{authority.rpartition('@')[2]}{slash}{path}"[:200])

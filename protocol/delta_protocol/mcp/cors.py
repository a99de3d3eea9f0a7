"""What browsers are told, so that pages of allowed origins can call the endpoint (Fetch standard; CS-11-08, 11)."""

from __future__ import annotations

import re

from delta_protocol.mcp import versions
from delta_protocol.mcp.http_ladder import Headers

METHODS = b"GET, POST, DELETE, OPTIONS"

_ALLOWED = (
    "accept",
    "authorization",
    "content-type",
    versions.HEADER_LAST_EVENT,
    versions.HEADER_VERSION,
    versions.HEADER_SESSION,
    versions.HEADER_METHOD,
    versions.HEADER_NAME,
)
_EXPOSED = f"{versions.HEADER_SESSION}, {versions.HEADER_VERSION}, www-authenticate, retry-after".encode()
_MAX_AGE = b"7200"
_MIRROR = re.compile(re.escape(versions.HEADER_PARAM) + r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")
_MOST_MIRRORS = 64


def answer_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return what every answer to a request of an allowed origin carries; nothing where there is no origin."""
    origin = headers.get("origin")
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]


def preflight_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the answer to a preflight: our own headers, and the mirrors of arguments that this one asks for."""
    asked = ",".join(headers.all("access-control-request-headers")).lower().split(",")
    mirrors = [name for name in (each.strip() for each in asked) if _MIRROR.fullmatch(name)][:_MOST_MIRRORS]
    return [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", ", ".join((*_ALLOWED, *mirrors)).encode()),
        (b"access-control-max-age", _MAX_AGE),
        (b"allow", METHODS),
    ]

"""Whose request it is behind proxies: counted from the right, where the trusted ones wrote (RFC 7239; framework 12.4).

A client may begin either header with what it likes, so only as many entries count as there are trusted proxies. One
header is read, never the other: a proxy that writes one lets the other pass as the client sent it.
"""

from __future__ import annotations

import re
from typing import Literal

from delta_protocol.mcp.http_ladder import Headers

ProxyHeader = Literal["x-forwarded-for", "forwarded"]

_LONGEST = 64
_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;,\s]*))', re.IGNORECASE)
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:]+)(?::[^:]*)?")


def client_address(headers: Headers, peer: str | None, proxies: int, header: ProxyHeader) -> str | None:
    """Return the address of the client behind `proxies` trusted hops, the nearest of which is `peer`.

    With fewer entries than hops the leftmost counts. What a proxy hid or garbled stays a text that is no address.
    """
    if proxies <= 0:
        return peer
    listed = ",".join(headers.all(header))
    if header == "forwarded":
        addresses = [_node(element) for element in _ELEMENT.findall(listed)]
    else:
        addresses = [_without_port(entry) for entry in listed.split(",") if entry.strip()]
    chain = [*addresses, peer]
    return chain[max(0, len(chain) - 1 - proxies)]


def _node(element: str) -> str:
    found = _FOR.search(element)
    if found is None:
        return "unknown"
    quoted, plain = found.groups()
    return _without_port(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))


def _without_port(text: str) -> str:
    text = text.strip()[:_LONGEST]
    found = _WITH_PORT.fullmatch(text)
    return (found[1] if found else text).strip("[]") or "unknown"

"""The `WWW-Authenticate` header: which Bearer challenge a server sent with 401 or 403 (RFC 9110 11.6.1, RFC 6750 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_LIMIT = 16 << 10
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - a grammar's name
_SEPARATOR = re.compile(r"[ \t,]*")
_PARAMETER = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN})(?=[ \t]*(?:,|\Z)))')
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,)|\Z)")
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|\Z))")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge. `scheme` and the names of `parameters` are in lower case; of a repeated name the first counts."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes it asks for, each once."""
        return tuple(dict.fromkeys(self.parameters.get("scope", "").split()))

    @property
    def error(self) -> str:
        """The error code of RFC 6750 3.1, or nothing."""
        return self.parameters.get("error", "")

    @property
    def resource_metadata(self) -> str | None:
        """Where the resource's metadata is (RFC 9728 5.1)."""
        return self.parameters.get("resource_metadata") or None


def parse(header: str) -> tuple[Challenge, ...]:
    """Return the challenges of a header value. What follows a fault of its grammar is left out."""
    text = header[:_LIMIT]
    found: list[tuple[str, dict[str, str]]] = []
    place = _skip(text, 0)
    while place < len(text):
        if found and (parameter := _PARAMETER.match(text, place)):
            name, quoted, plain = parameter.groups()
            found[-1][1].setdefault(name.lower(), plain if quoted is None else _ESCAPED.sub(r"\1", quoted))
            place = _skip(text, parameter.end())
            continue
        scheme = _SCHEME.match(text, place)
        if scheme is None:
            break
        found.append((scheme[1].lower(), {}))
        place = scheme.end()
        if credentials := _TOKEN68.match(text, place):
            place = credentials.end()
        place = _skip(text, place)
    return tuple(Challenge(scheme, parameters) for scheme, parameters in found)


def bearer(headers: Iterable[str]) -> Challenge:
    """Return the first Bearer or DPoP challenge of the header's lines, an empty one where there is none."""
    for each in parse(", ".join(headers)):
        if each.scheme in ("bearer", "dpop"):
            return each
    return Challenge("bearer")


def _skip(text: str, place: int) -> int:
    match = _SEPARATOR.match(text, place)
    return place if match is None else match.end()

"""Which encoding two sides share, and which one an HTTP header names (RFC 9110 8.3, 12.4.2 and 12.5.1; CS-05)."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

from delta_protocol.codecs import cbor, compact


class Format(enum.Enum):
    """An encoding of JSON-RPC messages, by the name that peers know."""

    CBOR = "cbor"
    COMPACT = "compact-json"
    JSON = "json"


PREFERENCE = (Format.CBOR, Format.COMPACT, Format.JSON)

CONTENT_TYPES = {
    Format.CBOR: cbor.CONTENT_TYPE,
    Format.COMPACT: compact.CONTENT_TYPE,
    Format.JSON: "application/json",
}

_PARTS = re.compile(r'(?:[^,;"]|"(?:[^"\\]|\\.)*"?)+|[,;]')
_QUALITY = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


def choose(ours: Collection[Format], theirs: Collection[Format]) -> Format:
    """Return the first of `PREFERENCE` that both sides speak; JSON needs nobody's word."""
    return next((each for each in PREFERENCE if each in ours and each in theirs), Format.JSON)


def of_content_type(value: str) -> Format | None:
    """Return the format that a `Content-Type` names; None where it names none that exists."""
    ranges = _media_ranges(value)
    if len(ranges) != 1:
        return None
    return _named(*ranges[0])


def of_accept(value: str, offered: Collection[Format]) -> Format | None:
    """Return the offered format that an `Accept` wants most; ties fall to `PREFERENCE`, wildcards mean JSON.

    None where nothing offered is acceptable. `q=0`, and a q that is no quality, exclude what they stand beside.
    """
    exact: dict[Format, float] = {}
    wildcards: dict[str, float] = {}
    for name, parameters in _media_ranges(value):
        quality = _quality(parameters)
        named = _named(name, parameters)
        if named is not None:
            exact[named] = quality
        else:
            wildcards[name] = quality
    if Format.JSON not in exact:
        wildcard = wildcards.get("application/*", wildcards.get("*/*"))
        if wildcard is not None:
            exact[Format.JSON] = wildcard
    wanted = [each for each in PREFERENCE if each in offered and exact.get(each, 0.0) > 0.0]
    return max(wanted, key=exact.__getitem__, default=None)


def allows(value: str, name: str) -> bool:
    """Whether an `Accept` allows the media type `name`: the most specific range decides, and `q=0` excludes."""
    qualities = {each: _quality(parameters) for each, parameters in _media_ranges(value)}
    ranges = (name, f"{name.partition('/')[0]}/*", "*/*")
    return next((qualities[each] for each in ranges if each in qualities), 0.0) > 0.0


def allows_token(value: str, name: str) -> bool:
    """Whether a list of codings with qualities, such as `Accept-Encoding`, names `name`, or all, above 0."""
    qualities = {each: _quality(parameters) for each, parameters in _media_ranges(value)}
    return qualities.get(name, qualities.get("*", 0.0)) > 0.0


def _quality(parameters: dict[str, str]) -> float:
    text = parameters.get("q", "1")
    return float(text) if _QUALITY.fullmatch(text) else 0.0


def _named(name: str, parameters: dict[str, str]) -> Format | None:
    if name == "application/cbor":
        return Format.CBOR
    if name != "application/json":
        return None
    match parameters.get("variant"):
        case None:
            return Format.JSON
        case "compact":
            return Format.COMPACT
        case _:
            return None


def _media_ranges(value: str) -> list[tuple[str, dict[str, str]]]:
    ranges: list[list[str]] = [[]]
    for part in _PARTS.findall(value):
        if part == ",":
            ranges.append([])
        elif part != ";":
            ranges[-1].append(part.strip())
    return [(first.lower(), dict(map(_parameter, rest))) for first, *rest in filter(None, ranges) if first]


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"').lower()

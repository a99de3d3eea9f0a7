"""An upstream's rate limit, as HTTP libraries raise it (RFC 6585 4, RFC 9110 10.2.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

_STATUS = 429
_DEFAULT = 30
_MAX = 7 * 86_400
_MESSAGE = 500


class RateLimit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="rate_limited", tag_field="type"):
    """What a model is told: wait `retry_after_seconds`, then call again. `upstream` names the tool."""

    retry_after_seconds: int
    upstream: str
    message: str = ""


def rate_limit(raised: BaseException, upstream: str, now: float) -> RateLimit | None:
    """Return the limit that an exception tells of, None for any other; `now` in seconds since the epoch.

    Status and headers are looked for where httpx, requests, aiohttp and their like put them: on the exception, or on
    its `response`. Without a usable Retry-After, 30 s.
    """
    response: object = getattr(raised, "response", None)
    places = (raised, response)
    if _STATUS not in (_status(place) for place in places):
        return None
    waits = [_wait(place, now) for place in places]
    wait = next((each for each in waits if each is not None), _DEFAULT)
    return RateLimit(wait, upstream, str(raised)[:_MESSAGE])


def _status(place: object) -> int | None:
    for name in ("status", "status_code", "statusCode", "code"):
        value: Any = getattr(place, name, None)
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
    return None


def _wait(place: object, now: float) -> int | None:
    headers: Any = getattr(place, "headers", None)
    given: object = None
    if isinstance(headers, Mapping):
        members = cast("Mapping[object, object]", headers)
        given = next((value for name, value in members.items() if str(name).lower() == "retry-after"), None)
    for value in (given, getattr(place, "retry_after", None), getattr(place, "retryAfter", None)):
        seconds = _seconds(value, now)
        if seconds is not None:
            return seconds
    return None


def _seconds(value: object, now: float) -> int | None:
    """Return whole seconds from a number, its text or an HTTP date; None for what is none of these, or negative."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        text = value.strip()
        if not text.isdecimal():
            return _until(text, now)
        value = int(text) if len(text) < 10 else _MAX
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return min(math.ceil(value), _MAX)


def _until(text: str, now: float) -> int | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    left = (moment - datetime.fromtimestamp(now, UTC)).total_seconds()
    return max(0, min(math.ceil(left), _MAX))

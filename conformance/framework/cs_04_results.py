"""CS-04: long results in pages, and rate limits; the functions of this library's API.

Pages are cut by what they cost in tokens, so their length in characters is not told beforehand.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from conformance.framework.target import Target
from delta_protocol.mcp.rate_limits import RateLimit, rate_limit
from delta_protocol.mcp.result_pages import Measure, needs_pages, page_of, shown_text
from delta_protocol.tokens import estimate

_MEASURE = Measure(500, 10)
_LONG = "\n".join(f"line {number} of a long text" for number in range(2000))
_ITEMS = list(range(25))
_WIDE = {f"key {number}": "x" * 200 for number in range(60)}


def cs_04_01_what_fits_stays_as_it_is(target: Target) -> None:
    """A value within the budget needs no pages, and is shown whole with nothing said about it."""
    target.need_api()
    value = {"a": [1, 2, {"b": "c"}]}
    assert not needs_pages(value, _MEASURE)
    page = page_of(value, (), 1, _MEASURE)
    assert (page.told, page.text) == ({}, shown_text(value))


def cs_04_02_a_long_text_tells_what_it_is(target: Target) -> None:
    """Of a long text a page is shown, with `truncated`, `totalChars`, `estimatedTokens` and where it goes on."""
    target.need_api()
    page = page_of(_LONG, (), 1, _MEASURE)
    told = page.told
    assert told["truncated"] is True
    assert told["totalChars"] == len(_LONG)
    assert type(told["estimatedTokens"]) is int
    assert told["estimatedTokens"] > 500
    assert page.text
    assert _LONG.startswith(page.text)
    assert (told["page"], told["hasMore"]) == (1, True)


def cs_04_03_a_page_costs_what_it_may(target: Target) -> str:
    """A page with all that is said costs at most the budget and at least half of it, in any script; none is lost."""
    target.need_api()
    costs: list[int] = []
    for text in (_LONG, "世界の人々" * 400, "🙂" * 600, "0f" * 1500):
        last = page_of(text, (), 1, _MEASURE).told["totalPages"]
        pages = [page_of(text, (), number, _MEASURE) for number in range(1, last + 1)]
        assert "".join(page.text or "" for page in pages) == text
        costs += [estimate(page.text or "") + estimate(shown_text(page.told)) for page in pages[:-1]]
    assert max(costs) <= 500
    assert min(costs) >= 250
    return f"{min(costs)} to {max(costs)} of 500 tokens"


def cs_04_04_a_long_array_tells_what_it_is(target: Target) -> None:
    """Of a long array a page is shown, with its number, how many there are, and the items."""
    target.need_api()
    told = page_of(_ITEMS, (), 1, _MEASURE).told
    assert told == {
        "paginated": True, "totalItems": 25, "page": 1, "pageSize": 10, "totalPages": 3, "hasMore": True,
        "items": _ITEMS[:10],
    }  # fmt: skip
    assert all(type(told[name]) is int for name in ("totalItems", "page", "pageSize", "totalPages"))


def cs_04_05_page_three_begins_where_two_ended(target: Target) -> None:
    """Page 3 of pages of ten begins at item 20."""
    target.need_api()
    assert _items(3) == _ITEMS[20:]
    assert _items(1) + _items(2) + _items(3) == _ITEMS


def cs_04_06_the_last_page_says_so(target: Target) -> None:
    """The last page has no more, and its number is `totalPages`."""
    target.need_api()
    told = page_of(_ITEMS, (), 3, _MEASURE).told
    assert (told["hasMore"], told["page"], told["totalPages"]) == (False, 3, 3)


def cs_04_07_a_page_past_the_end_is_the_last(target: Target) -> None:
    """Page 999 is the last one."""
    target.need_api()
    assert page_of(_ITEMS, (), 999, _MEASURE) == page_of(_ITEMS, (), 3, _MEASURE)
    assert page_of(_LONG, (), 999, _MEASURE).told["hasMore"] is False


def cs_04_08_a_long_object_is_summarised(target: Target) -> None:
    """Of a long object its keys are shown, counted exactly, the user's apart from ours; a long one hides no other."""
    target.need_api()
    told = page_of({"huge": _LONG, "_note": "mine", **_WIDE}, (), 1, _MEASURE).told
    assert told["_summarized"] is True
    assert told["_totalKeys"] == 62
    assert type(told["_estimatedTokens"]) is int
    assert told["_truncatedKeys"] == 62 - len(told["_keys"])
    assert list(told["_keys"])[:3] == ["huge", "_note", "key 0"]
    assert told["_keys"]["_note"] == "mine"


def cs_04_09_a_rate_limit_has_its_shape(target: Target) -> None:
    """A rate limit is an object with `type`, `retryAfterSeconds` and `upstream`."""
    target.need_api()
    limit: dict[str, Any] = _json(RateLimit(5, "search"))
    assert limit == {"type": "rate_limited", "retryAfterSeconds": 5, "upstream": "search"}


def cs_04_10_a_429_says_how_long_to_wait(target: Target) -> None:
    """A raised 429 with `Retry-After: 60` becomes 60 s, whatever the header's case, and wherever libraries keep it."""
    target.need_api()
    for raised in (_Limited(429, {"retry-after": "60"}), _Limited("429", {"Retry-After": "60"}), _Wrapping(429, "60")):
        limit = rate_limit(raised, "search", time.time())
        assert limit is not None, vars(raised)
        assert (limit.retry_after_seconds, limit.upstream, limit.message) == (60, "search", "slow down")


def cs_04_11_nothing_else_is_a_rate_limit(target: Target) -> None:
    """Any other exception is none."""
    target.need_api()
    assert rate_limit(ValueError("429"), "search", 0.0) is None
    assert rate_limit(_Limited(500, {"retry-after": "60"}), "search", 0.0) is None
    assert rate_limit(_Limited(None, {}), "search", 0.0) is None


def cs_04_12_without_a_header_it_is_half_a_minute(target: Target) -> None:
    """Without a usable header it is 30 s; 0 is usable, a negative number and nonsense are not."""
    target.need_api()
    waits = [rate_limit(_Limited(429, {"retry-after": value}), "search", 0.0) for value in ("-1", "soon", "0")]
    waits.append(rate_limit(_Limited(429, {}), "search", 0.0))
    assert [wait and wait.retry_after_seconds for wait in waits] == [30, 30, 0, 30]


class _Limited(Exception):
    def __init__(self, status: object, headers: dict[str, str]) -> None:
        super().__init__("slow down")
        self.status = status
        self.headers = headers


class _Wrapping(Exception):
    def __init__(self, status: int, seconds: str) -> None:
        super().__init__("slow down")
        self.response = _Limited(status, {"Retry-After": seconds})


def _items(page: int) -> list[int]:
    items: list[int] = page_of(_ITEMS, (), page, _MEASURE).told["items"]
    return items


def _json(limit: RateLimit) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(limit)
    return told

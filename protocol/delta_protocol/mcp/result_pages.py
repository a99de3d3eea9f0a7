"""Long tool results in pages that fit a number of tokens: text, arrays and objects, each cut by its own structure.

The shapes are those of delta-mcp 0.2 (a preview with its counts, a page of items, the keys of an object) without what
it loses: pages are cut by what they cost, so each fits, and every page and every shortened part has an address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from delta_protocol import tokens
from delta_protocol.answers.parts import Path, part
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.errors import Invalid

Count = Callable[[str], int]
"""Returns the tokens of a text."""

WRAPPER = 96
"""Tokens of a page that are kept for what is said about it."""
MIN_TOKENS = 200
_PREVIEW = 100
_MOST_CHARACTERS = 64
"""Characters beyond which no text costs one token only."""
_SAMPLE = 1 << 16
_SHOWN_KEYS = 5


class Measure(msgspec.Struct, frozen=True):
    """What a page may cost: tokens, items, and how tokens are counted. Raises `Invalid` for bounds that are none."""

    max_tokens: int
    page_size: int
    count: Count = tokens.estimate

    def __post_init__(self) -> None:
        if self.max_tokens < MIN_TOKENS or self.page_size < 1:
            raise Invalid(f"a page needs at least {MIN_TOKENS} tokens and one item")

    @property
    def room(self) -> int:
        """Tokens for the content of a page."""
        return self.max_tokens - WRAPPER

    def of(self, value: Any) -> int:  # noqa: ANN401 - any JSON value
        """Return the tokens of a value as it would be shown."""
        return self.count(shown_text(value))


class Page(msgspec.Struct, frozen=True):
    """One page. `text` is shown as it is where it is not None, before `told`, which is shown as JSON."""

    told: dict[str, Any]
    text: str | None = None


def shown_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else exact_json.encode(value).decode()


def needs_pages(value: Any, measure: Measure) -> bool:  # noqa: ANN401 - any JSON value
    """Whether a value is over the tokens, or an array over the items of a page."""
    if is_array(value) and len(value) > measure.page_size:
        return True
    text = shown_text(value)
    return len(text) > measure.max_tokens * _MOST_CHARACTERS or measure.count(text) > measure.max_tokens


def page_of(value: Any, path: Path, page: int, measure: Measure) -> Page:  # noqa: ANN401 - any JSON value
    """Return the page, from 1, of what `path` leads to in `value`; a number past the end gives the last.

    Raises `NotFound` where the path leads nowhere.
    """
    found = part(value, path)
    if is_array(found):
        return _items(found, path, page, measure)
    if is_object(found) and needs_pages(found, measure):
        return _keys(found, path, page, measure)
    if isinstance(found, str) and needs_pages(found, measure):
        return _text(found, path, page, measure)
    return Page({}, shown_text(found))


def _text(text: str, path: Path, page: int, measure: Measure) -> Page:
    starts = [0]
    while starts[-1] < len(text):
        ahead = text[starts[-1] : starts[-1] + measure.room * _MOST_CHARACTERS]
        starts.append(starts[-1] + _cut(ahead, measure))
    number, last = _number(page, len(starts) - 1)
    told = {
        "truncated": True,
        "totalChars": len(text),
        "estimatedTokens": _about(text, measure),
        "page": number,
        "totalPages": last,
        "hasMore": number < last,
    }
    return Page(_addressed(told, path), text[starts[number - 1] : starts[number]])


def _cut(text: str, measure: Measure) -> int:
    """Return how many characters a page that begins with `text` has: at least one; whole lines where one ends late.

    By the estimate, which an exact count does not exceed: pages must be found without counting each many times.
    """
    end = max(1, tokens.prefix(text, measure.room))
    line = text.rfind("\n", 0, end) + 1
    return line if end < len(text) and line > end // 2 else end


def _about(text: str, measure: Measure) -> int:
    """Return a text's tokens; of a long one those of its beginning, scaled."""
    return measure.count(text[:_SAMPLE]) * max(len(text), 1) // max(min(len(text), _SAMPLE), 1)


def _items(items: list[Any], path: Path, page: int, measure: Measure) -> Page:
    shown = [_fitting(item, (*path, at), measure) for at, item in enumerate(items)]
    pages = _pages((measure.of(item) + 1 for item in shown), measure.room, measure.page_size)
    number, last = _number(page, len(pages))
    start, end = pages[number - 1]
    told = {
        "paginated": True,
        "totalItems": len(items),
        "page": number,
        "pageSize": end - start,
        "totalPages": last,
        "hasMore": number < last,
        "items": shown[start:end],
    }
    return Page(_addressed(told, path))


def _keys(value: dict[str, Any], path: Path, page: int, measure: Measure) -> Page:
    shown = {key: _preview(item, measure) for key, item in value.items()}
    names = list(shown)
    pages = _pages((measure.of({key: item}) + 1 for key, item in shown.items()), measure.room, len(names))
    number, last = _number(page, len(pages))
    start, end = pages[number - 1]
    told: dict[str, Any] = {
        "_summarized": True,
        "_totalKeys": len(value),
        "_estimatedTokens": _about(shown_text(value), measure),
        "_keys": {name: shown[name] for name in names[start:end]},
        "page": number,
        "totalPages": last,
        "hasMore": number < last,
    }
    if end - start < len(names):
        told["_truncatedKeys"] = len(names) - (end - start)
    return Page(_addressed(told, path))


def _fitting(item: Any, path: Path, measure: Measure) -> Any:  # noqa: ANN401 - any JSON value
    """Return an item that fits a page, or what says where it is and what it begins with."""
    if measure.of(item) < measure.room:
        return item
    told = {"truncated": True, "estimatedTokens": measure.of(item), "path": list(path)}
    return {**told, "preview": _preview(item, measure)}


def _preview(value: Any, measure: Measure) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value that costs little as it is, else a sketch of it."""
    if isinstance(value, str):
        most = min(_PREVIEW, measure.room // 8)
        return value if len(value) <= most else f"{value[:most]}…"
    if is_array(value):
        return f"[Array({len(value)})]"
    if is_object(value):
        names = [name[:20] for name in list(value)[:_SHOWN_KEYS]]
        return f"{{Object: {', '.join(names)}{', …' if len(value) > _SHOWN_KEYS else ''}}}"
    return value


def _pages(costs: Iterable[int], room: int, size: int) -> list[tuple[int, int]]:
    """Return where each page begins and ends: as much as fits, at least one."""
    pages: list[tuple[int, int]] = []
    start, spent, at = 0, 0, 0
    for at, cost in enumerate(costs):
        if at > start and (spent + cost > room or at - start >= size):
            pages.append((start, at))
            start, spent = at, 0
        spent += cost
    pages.append((start, at + 1))
    return pages


def _number(page: int, last: int) -> tuple[int, int]:
    return max(1, min(page, last)), last


def _addressed(told: dict[str, Any], path: Path) -> dict[str, Any]:
    return {**told, "path": list(path)} if path else told

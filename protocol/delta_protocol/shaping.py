"""Fitting a JSON value into a number of tokens, cut only at the boundaries of its own structure.

What is left out is named where it stood: a cut text ends with the reference that reads on, an array's or object's last
element says how much more there is and where. The result is valid JSON, and every part that was left out can be read by
its reference, in turn (three-tools 12, acceptance 6).
"""

from __future__ import annotations

from typing import Any

import msgspec

from delta_protocol.answers.parts import Path, spell
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.tokens import estimate, fits, prefix

SAFE_INTEGER = 2**53 - 1
MORE = "…"
"""The key under which a cut object says what is missing, and the first character of every such text."""

_MARKER = 48
"""Tokens kept for the text that says what is missing."""
_LEAST = 24
"""Fewer tokens than this are not worth a partial element."""


class Place(msgspec.Struct, frozen=True):
    """Where a value lies within a stored result: `id`, `path`, and the offset of its first item, key or character.

    `end` is where the value ends in what is stored, None at its own end.
    """

    id: str
    path: Path = ()
    offset: int = 0
    end: int | None = None

    def below(self, step: str | int) -> Place:
        """Return the place of a child."""
        return Place(self.id, (*self.path, self.offset + step if isinstance(step, int) else step))

    def rest(self, start: int, size: int) -> Cut:
        """Return the cut that leaves out what comes after `start` of `size` items, keys or characters."""
        return Cut(self.id, self.path, self.offset + start, self.end if self.end is not None else self.offset + size)

    def whole(self) -> Cut:
        """Return the cut that leaves out everything here."""
        return Cut(self.id, self.path, self.offset if self.offset or self.end is not None else None, self.end)


class Cut(msgspec.Struct, frozen=True):
    """A part that was left out: what `LoadResult` needs to get it."""

    id: str
    path: Path
    start: int | None
    end: int | None

    @property
    def ref(self) -> str:
        """The reference that reads it."""
        span = "" if self.start is None else f"[{self.start}:{'' if self.end is None else self.end}]"
        return f"result:{self.id}{spell(self.path)}{span}"


class Shaped(msgspec.Struct, frozen=True):
    """`value` as it may be shown, and what was left out of it, in order."""

    value: Any
    cuts: tuple[Cut, ...] = ()


def readable(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return `value` with integers beyond ±(2^53-1) as strings: a reader would round them (acceptance 25)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)
    if is_object(value):
        return {key: readable(item) for key, item in value.items()}
    if is_array(value):
        return [readable(item) for item in value]
    return value


def text_of(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the shortest text that shows `value` and nothing else: text that could be taken for JSON stays quoted."""
    if isinstance(value, str) and not _looks_like_json(value):
        return value
    return exact_json.encode(value).decode()


def shape(value: Any, budget: int, place: Place) -> Shaped:  # noqa: ANN401 - any JSON value
    """Return `value`, cut so that its JSON text costs at most `budget` tokens; `place` is where the whole is stored.

    Reading the cuts, and the cuts of what they give, leads to every character, item and key, unless a single key alone
    is longer than the budget.
    """
    for attempt in (budget, budget * 3 // 4, budget // 2):
        shaper = _Shaper()
        shown = shaper.fit(value, attempt, place)
        if _fits(shown, budget):
            return Shaped(shown, tuple(shaper.cuts))
    shaper = _Shaper()
    return Shaped(shaper.mark(place.whole(), "everything"), tuple(shaper.cuts))


class _Shaper:
    def __init__(self) -> None:
        self.cuts: list[Cut] = []

    def fit(self, value: Any, budget: int, place: Place) -> Any:  # noqa: ANN401 - any JSON value
        if _fits(value, budget):
            return value
        if budget >= _reserve(place) + _LEAST:
            if isinstance(value, str):
                return self._text(value, budget, place)
            if is_array(value):
                return self._array(value, budget, place)
            if is_object(value):
                return self._object(value, budget, place)
        return self.mark(place.whole(), "all of it")

    def mark(self, cut: Cut, what: str) -> str:
        self.cuts.append(cut)
        return f"{MORE} {what} left out: {cut.ref}"

    def _text(self, value: str, budget: int, place: Place) -> str:
        kept = _prefix_of(value, budget - _reserve(place))
        left_out = f"{len(value) - kept} of {len(value)} characters"
        return value[:kept] + self.mark(place.rest(kept, len(value)), left_out)

    def _array(self, value: list[Any], budget: int, place: Place) -> list[Any]:
        kept: list[Any] = []
        left = budget - _reserve(place)
        for index, item in enumerate(value):
            shown, left = self._next(item, left, place.below(index), first=index == 0)
            if left < 0:
                kept.append(self.mark(place.rest(index, len(value)), f"{len(value) - index} of {len(value)} items"))
                break
            kept.append(shown)
        return kept

    def _object(self, value: dict[str, Any], budget: int, place: Place) -> dict[str, Any]:
        """Every key, small values whole and large ones shortened; where keys are too many, the first of them."""
        left = budget - _reserve(place)
        costs = {key: _cost({key: item}, left) for key, item in value.items()}
        large = {key: _cost(key, left) + _reserve(place.below(key)) + _LEAST for key in value}
        large = {key: least for key, least in large.items() if costs[key] > least}
        spare = left - sum(large.get(key, cost) for key, cost in costs.items())
        if spare < 0:
            return self._first_keys(value, left, place)
        shown: dict[str, Any] = {}
        for key, item in value.items():
            if key not in large:
                shown[key] = item
                continue
            share = spare // (sum(1 for other in large if other not in shown)) + large[key]
            shown[key] = self.fit(item, share - _cost(key, left), place.below(key))
            spare -= max(0, _cost({key: shown[key]}, left) - large[key])
        return shown

    def _first_keys(self, value: dict[str, Any], left: int, place: Place) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for index, (key, item) in enumerate(value.items()):
            shown, left = self._next(item, left - _cost(key, left), place.below(key), first=index == 0)
            if left < 0:
                more = MORE
                while more in value:
                    more += MORE
                kept[more] = self.mark(place.rest(index, len(value)), f"{len(value) - index} of {len(value)} keys")
                break
            kept[key] = shown
        return kept

    def _next(self, item: Any, left: int, place: Place, *, first: bool) -> tuple[Any, int]:  # noqa: ANN401
        """Return an element as it is shown in a row of them and what is left after it: negative when it has no room.

        The first may take everything, so that reading on always gets further; each other at most a quarter.
        """
        before = len(self.cuts)
        share = left if first else max(left // 4, _reserve(place) + _LEAST)
        shown = self.fit(item, min(left, share), place) if left > 0 else None
        left -= _cost(shown, left)
        if left < 0:
            del self.cuts[before:]
        return shown, left


def _reserve(place: Place) -> int:
    """Return the tokens to keep for the text that says what is missing here."""
    return _MARKER + sum(2 + len(str(step)) // 2 for step in place.path)


def _looks_like_json(text: str) -> bool:
    stripped = text.strip()
    return not stripped or stripped[0] in '{["-0123456789' or stripped in ("true", "false", "null")


def _fits(value: Any, budget: int) -> bool:  # noqa: ANN401 - any JSON value
    return budget > 0 and fits(exact_json.encode(value).decode(), budget)


def _cost(value: Any, most: int) -> int:  # noqa: ANN401 - any JSON value
    """Return what the value costs with the comma after it, or a number beyond `most`."""
    text = exact_json.encode(value).decode()
    return estimate(text) + 1 if len(text) <= max(most, 1) * 8 else most + 1


def _prefix_of(text: str, budget: int) -> int:
    """Return how many characters of `text` cost at most `budget` tokens once written as JSON."""
    if budget <= 0:
        return 0
    kept = prefix(text, budget)
    while kept and not fits(exact_json.encode(text[:kept]).decode(), budget):
        kept = kept * 3 // 4
    return kept

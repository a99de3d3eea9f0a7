"""What a read says about a call: verified, stored differently, not there; and after a lost reply, made or not.

Pure. Expectations come filled (no holes), images decoded. Source: plan-apply-undo 5.10 and 5.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from delta_protocol.changes.holes import Tree, dig, unpack
from delta_protocol.changes.images import NOTHING, UNKNOWN, field_of, is_known
from delta_protocol.changes.model import PlannedCall, ReadBack
from delta_protocol.changes.normalise import same
from delta_protocol.changes.redaction import MARK
from delta_protocol.changes.words import short
from delta_protocol.codecs.exact_json import is_array, is_object


class Verdict(StrEnum):
    """What a read-back showed."""

    VERIFIED = "verified"
    DIFFERS = "differs"
    NOT_THERE = "not_there"


class Made(StrEnum):
    """What a probe showed."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Expected:
    """A `ReadBack`'s expectations with every hole filled."""

    expect: dict[str, Any]
    absent: bool
    contains: tuple[tuple[str, Any], ...]
    lacks: tuple[tuple[str, Any], ...]
    changed: bool
    anything: bool = False
    """A later call of the plan deletes the entity or changes it in its own way: nothing is left to show."""


def image_at(result: Any, read: ReadBack) -> Any:  # noqa: ANN401 - a JSON value or NOTHING
    """Return the entity inside a reader's decoded result, `NOTHING` where there is none (or only null)."""
    found, image = dig(result, read.path)
    return image if found and image is not None else NOTHING


def image_before(now: Any, read: ReadBack) -> Any:  # noqa: ANN401 - images
    """Return the before-image that the answer to a `BeforeRead` gives: an entity without a reader of its own is known
    by its place in a list, which is then its image."""
    if not read.lacks or not is_known(now):
        return now
    if not all(countable(now, name) for name, _ in read.lacks):
        return UNKNOWN
    there = any(count(now, name, unpack(element)) for name, element in read.lacks)
    return now if there else NOTHING


def judge(expected: Expected, now: Any, before: Any) -> tuple[Verdict, str]:  # noqa: ANN401 - images
    """Return what the image `now` says about a call, with the difference in words."""
    if expected.anything:
        return Verdict.VERIFIED, ""
    if expected.absent:
        return (Verdict.VERIFIED, "") if now is NOTHING else (Verdict.NOT_THERE, "it is still there")
    if now is NOTHING:
        # A list or array that is not there lacks everything.
        return (Verdict.VERIFIED, "") if _only_lacks(expected) else (Verdict.NOT_THERE, "it is not there")
    for name, element in expected.contains:
        if count(now, name, element) == 0:
            return Verdict.NOT_THERE, f"{name or 'the list'} does not hold {short(element)}"
    for name, element in expected.lacks:
        if count(now, name, element) > 0 and count(now, name, element) >= count(before, name, element):
            return Verdict.NOT_THERE, f"{name or 'the list'} still holds {short(element)}"
    if expected.changed and is_known(before) and same(before, now) and same(now, before):
        return Verdict.DIFFERS, "nothing changed"
    return _compare(expected.expect, now)


def _only_lacks(expected: Expected) -> bool:
    return bool(expected.lacks) and not expected.contains and not expected.expect and not expected.changed


def _compare(expect: dict[str, Any], now: Any) -> tuple[Verdict, str]:  # noqa: ANN401 - an image
    different: list[str] = []
    for name, wanted in expect.items():
        had, got = field_of(now, name)
        if not (same(wanted, got) if had else wanted is None):
            different.append(f"{name or 'content'}: wanted {short(wanted)}, got {short(got) if had else 'nothing'}")
    return (Verdict.DIFFERS, "; ".join(different)) if different else (Verdict.VERIFIED, "")


def count(image: Any, name: str, element: Any) -> int:  # noqa: ANN401 - an image
    """Return how many elements of the image's array field are `element` (matched on the fields it gives)."""
    had, array = field_of(image, name) if is_known(image) else (False, None)
    return sum(1 for item in array if same(element, item)) if had and is_array(array) else 0


def countable(image: Any, name: str) -> bool:  # noqa: ANN401 - an image
    """Return whether counting proves anything: the field is an array, or there is nothing at all."""
    had, array = field_of(image, name) if is_known(image) else (False, None)
    return image is NOTHING or (had and is_array(array))


def was_made(expected: Expected, now: Any, before: Any) -> Made:  # noqa: ANN401 - images
    """Return whether the call behind a lost reply was made."""
    if _redacted(expected):
        return Made.UNSURE
    if expected.absent:
        return Made.YES if now is NOTHING else Made.NO
    if expected.contains and not expected.expect:
        return _by_count(expected.contains, now, before, gained=True)
    if expected.lacks:
        return _by_count(expected.lacks, now, before, gained=False)
    if now is NOTHING:
        return Made.NO if before is NOTHING else Made.UNSURE
    if expected.changed:
        unchanged = is_known(before) and same(before, now) and same(now, before)
        return Made.UNSURE if not is_known(before) else (Made.NO if unchanged else Made.YES)
    if not expected.expect:
        return Made.UNSURE
    if _compare(expected.expect, now)[0] is Verdict.VERIFIED:
        return Made.YES
    if before is UNKNOWN or before is NOTHING:
        return Made.UNSURE
    earlier = {name: field_of(before, name)[1] for name in expected.expect}
    return Made.NO if _compare(earlier, now)[0] is Verdict.VERIFIED else Made.UNSURE


def _by_count(pairs: Sequence[tuple[str, Any]], now: Any, before: Any, *, gained: bool) -> Made:  # noqa: ANN401
    if before is UNKNOWN:
        # Without an earlier image only the whole absence of what was added proves anything.
        none = all(count(now, name, element) == 0 for name, element in pairs)
        return (Made.NO if gained else Made.YES) if none else Made.UNSURE
    steps = [count(now, name, element) - count(before, name, element) for name, element in pairs]
    moved = [step > 0 if gained else step < 0 for step in steps]
    if all(moved):
        return Made.YES
    return Made.UNSURE if any(moved) else Made.NO


def _redacted(expected: Expected) -> bool:
    return MARK in str((expected.expect, expected.contains, expected.lacks))


def unfilled(read: ReadBack) -> Expected:
    """Return the expectations as trees; holes stay."""
    return Expected(
        unpack(read.expect),
        read.absent,
        tuple((name, unpack(value)) for name, value in read.contains),
        tuple((name, unpack(value)) for name, value in read.lacks),
        read.changed,
    )


def superseded(calls: Sequence[PlannedCall]) -> dict[int, Expected | None]:
    """Return what each call's read-back still has to show after all `calls` were made.

    A later call on the same entity overwrites fields, elements or the whole entity: those are left to the later call.
    None: nothing reads it back.
    """
    out: dict[int, Expected | None] = {}
    for index, call in enumerate(calls):
        if call.read_back is None:
            out[call.number] = None
            continue
        expected = unfilled(call.read_back)
        for later in calls[index + 1 :]:
            if later.read_back is None or later.connector != call.connector:
                continue
            if _same_reader(call.read_back, later.read_back):
                expected = _without(expected, unfilled(later.read_back))
        out[call.number] = expected
    return out


def _same_reader(a: ReadBack, b: ReadBack) -> bool:
    return a.tool == b.tool and a.path == b.path and a.arguments == b.arguments


def _without(earlier: Expected, later: Expected) -> Expected:
    if later.absent or later.changed or earlier.absent:
        return Expected({}, False, (), (), False, anything=True)
    touched = {name for name, _ in (*later.contains, *later.lacks)}
    return Expected(
        {name: value for name, value in earlier.expect.items() if name not in later.expect and name not in touched},
        False,
        _left(earlier.contains, later.expect, later.lacks),
        _left(earlier.lacks, later.expect, later.contains),
        earlier.changed and not later.expect,
        earlier.anything,
    )


def _left(
    pairs: tuple[tuple[str, Tree], ...], overwritten: dict[str, Any], opposite: tuple[tuple[str, Tree], ...]
) -> tuple[tuple[str, Tree], ...]:
    return tuple(
        (name, element)
        for name, element in pairs
        if name not in overwritten and not any(name == field and _overlap(element, item) for field, item in opposite)
    )


def _overlap(a: Tree, b: Tree) -> bool:
    if is_object(a) and is_object(b):
        return any(key in b and b[key] == value for key, value in a.items())
    return bool(a == b)

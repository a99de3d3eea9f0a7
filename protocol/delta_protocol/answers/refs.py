"""References: what `delta_read` can be asked to look up (three-tools 2).

""                        every connector with its collections and tool names
<connector>               all its collections and tools, with signatures
<connector>.<name>        exact types and description of one tool or collection
search:<words>            ranked tools and collections
result:<id>               a stored result; then .key, ["key"], [i] and [a:b], freely combined
delta:<id>                one delta
journal                   recent deltas; journal:<id> goes on after that one
services | guide
"""

from __future__ import annotations

import re

import msgspec

from delta_protocol.answers.parts import Path
from delta_protocol.changes.ids import DELTA_ID
from delta_protocol.errors import Invalid

RESULT_ID = re.compile(r"r_[a-z2-7]{12}")

MAX_LENGTH = 10_000
"""Characters of one reference."""

_STEP = re.compile(
    r"\.(?P<name>[^.\[\]]+)"
    r"|\[(?P<index>-?[0-9]{1,12})\]"
    r"|\[(?P<start>(?:-?[0-9]{1,12})?):(?P<end>(?:-?[0-9]{1,12})?)\]"
    r"|\[(?P<quoted>\"(?:[^\"\\]|\\.)*\")\]"
)


class Overview(msgspec.Struct, frozen=True):
    """`""`."""


class Named(msgspec.Struct, frozen=True):
    """A connector, or one of its tools or collections; `member` is empty for the connector itself."""

    connector: str
    member: str = ""


class Search(msgspec.Struct, frozen=True):
    """`search:` and words."""

    words: str


class ResultPart(msgspec.Struct, frozen=True):
    """A part of a stored result: a path, then a slice if either bound is given."""

    id: str
    path: Path = ()
    start: int | None = None
    end: int | None = None


class Delta(msgspec.Struct, frozen=True):
    """One delta."""

    id: str


class Journal(msgspec.Struct, frozen=True):
    """Recent deltas, those before `before` if given."""

    before: str | None = None


class Services(msgspec.Struct, frozen=True):
    """What is connected."""


class Guide(msgspec.Struct, frozen=True):
    """How to write programs."""


Ref = Overview | Named | Search | ResultPart | Delta | Journal | Services | Guide


def parse(ref: str) -> Ref:
    """Return what `ref` asks for. Raises `Invalid`."""
    text = ref.strip()
    if len(text) > MAX_LENGTH:
        raise Invalid(f"a reference of {len(text)} characters is too long; at most {MAX_LENGTH}")
    if not text:
        return Overview()
    simple: dict[str, Ref] = {"services": Services(), "journal": Journal(), "guide": Guide()}
    if text in simple:
        return simple[text]
    kind, colon, rest = text.partition(":")
    match kind if colon else "":
        case "search":
            if not rest.strip():
                raise Invalid("search: needs words, as in search:close ticket")
            return Search(rest.strip())
        case "result":
            return _result(rest)
        case "delta":
            return Delta(delta_id(rest.strip()))
        case "journal":
            return Journal(delta_id(rest.strip()))
        case _:
            connector, _, member = text.partition(".")
            return Named(connector, member)


def delta_id(text: str) -> str:
    """Return `text` if it looks like a delta's id. Raises `Invalid` (acceptance 77)."""
    if DELTA_ID.fullmatch(text) is None:
        raise Invalid(f"{text[:40]!r} is no delta id: d_ and 12 letters or digits from a-z and 2-7")
    return text


def _result(text: str) -> ResultPart:
    name, at = text[:14], 14
    if RESULT_ID.fullmatch(name) is None:
        raise Invalid(f"{text[:40]!r} names no result: result:r_… with 12 letters or digits, then a path")
    part = ResultPart(name)
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise Invalid(f'cannot read {text[at : at + 40]!r} of the reference; use .key, ["key"], [i] and [a:b]')
        part = _follow(part, step)
        at = step.end()
    return part


def _follow(part: ResultPart, step: re.Match[str]) -> ResultPart:
    sliced = part.start is not None or part.end is not None
    if step["index"] is not None:
        index = int(step["index"])
        if sliced:
            index = _inside(part, index)
        return ResultPart(part.id, (*part.path, index))
    if step["start"] is not None:
        start, end = (int(bound) if bound else None for bound in (step["start"], step["end"]))
        if sliced:
            return _slice(part, start, end)
        return ResultPart(part.id, part.path, 0 if start is None and end is None else start, end)
    if sliced:
        raise Invalid("a slice has items, not keys: write the key before [a:b], or an index after it")
    name = step["name"]
    return ResultPart(part.id, (*part.path, _unquoted(step["quoted"]) if name is None else name))


def _unquoted(quoted: str) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError:
        raise Invalid(f"{quoted[:40]} is no quoted key: it is read as a JSON string") from None


def _inside(part: ResultPart, index: int) -> int:
    start = part.start or 0
    if start < 0 or index < 0 or (part.end is not None and not 0 <= start + index < part.end):
        raise Invalid(f"[{index}] does not lie within [{start}:{'' if part.end is None else part.end}] before it")
    return start + index


def _slice(part: ResultPart, start: int | None, end: int | None) -> ResultPart:
    base, first = part.start or 0, start or 0
    if base < 0 or first < 0 or (part.end or 0) < 0 or (end or 0) < 0:
        raise Invalid("a slice of a slice counts from the start only")
    bounds = [bound for bound in (part.end, None if end is None else base + end) if bound is not None]
    return ResultPart(part.id, part.path, base + first, min(bounds) if bounds else None)

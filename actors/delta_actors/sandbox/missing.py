"""Where a program read a name that is not there.

The engine keeps places of calls only: an error of a read carries the place of the last call before it. The name is in
the message, so the first time that it stands in the text from there on is where it was read.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = frozenset({"TypeError", "ReferenceError", "NotFound"})
_MESSAGE: Final = re.compile(
    r"cannot read property '(?P<property>[^']+)' of"
    r"|^'?(?P<variable>[\w$]+)'? is not defined"
    r"|^[\w$.]+ has no '(?P<member>[^']+)'"
    r"|is a promise, which has no '(?P<early>[^']+)'"
)


def located(source: str, name: str, message: str, line: int, column: int) -> tuple[int, int]:
    """Return the place, 1-based, of what the error `name` with `message` misses.

    `line` and `column` are the engine's, and are returned where the text tells no better.
    """
    found = _MESSAGE.search(message) if name in _NAMES and line else None
    if found is None:
        return line, column
    word = found["property"] or found["variable"] or found["member"] or found["early"]
    before = r"(?<![\w$])" if found["variable"] else r"(?:\.\s*|\[\s*[\"']?)"
    pattern = re.compile(rf"{before}({re.escape(word)})(?![\w$])")
    places = [
        (number, match.start(1) + 1)
        for number, text in enumerate(source.split("\n"), 1)
        for match in pattern.finditer(text)
    ]
    later = [place for place in places if place >= (line, column)]
    if later:
        return later[0]
    return places[0] if len(places) == 1 else (line, column)

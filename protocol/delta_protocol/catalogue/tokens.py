"""An estimate of how many tokens a text costs, never under what o200k counts for API text.

An exact count needs a table of several megabytes and half a second to load; a budget only has to be kept.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"[A-Za-z]+|\d+|[!-/:-@\[-`{-~]+|\s+|[^\sA-Za-z\d]")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def estimate(text: str) -> int:
    """Return an upper estimate of the tokens in `text`."""
    return with_margin(pieces(text))


def with_margin(count: int) -> int:
    """Return the estimate for a sum of `pieces`."""
    return count + count // 32


def pieces(text: str) -> int:
    """Return about how many tokens `text` has; counts of lines (and one for each line's end) may be added up."""
    count = 0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isascii() and first.isalpha():
            count += sum(-(-len(part) // 9) for part in _PART.findall(piece))
        elif first.isdigit():
            count += -(-len(piece) // 3)
        elif first.isspace():
            count += piece.count("\n")
        elif piece == "_":
            # Nearly always one token together with the word after it.
            continue
        elif piece.isascii():
            count += -(-len(piece) // 2)
        else:
            count += 2
    return count

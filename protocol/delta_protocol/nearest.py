"""Known names near to one that nobody knows: what every refusal of a wrong name offers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKENESS = 0.5
"""Between 0 and 1, `difflib.SequenceMatcher.ratio`."""


def nearest(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return at most `most` known names that are like `word`, the likest first."""
    return difflib.get_close_matches(word, list(known), most, _LIKENESS)


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return `did you mean x?`, `did you mean x or y?`, or nothing where no name is near."""
    near = nearest(word, known, most)
    return f"did you mean {' or '.join(near)}?" if near else ""

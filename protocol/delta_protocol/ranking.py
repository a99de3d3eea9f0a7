"""BM25: which of many short documents are about the words of a query (Robertson and Zaragoza 2009, 3.4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from delta_protocol.catalogue import names

K1, B = 1.2, 0.6
NAME_WEIGHT = 4
"""A word in a name counts as often as this many in a description."""


def counted(name: str, rest: str) -> Counter[str]:
    """Return how often each word stands in a document; plurals count as their singular."""
    counts = Counter(_terms(rest))
    for term in _terms(name):
        counts[term] += NAME_WEIGHT
    return counts


def scores(documents: Sequence[Counter[str]], words: str) -> list[float]:
    """Return each document's score in their order; 0 where it has none of the words."""
    wanted = sorted(set(_terms(words)))
    if not documents or not wanted:
        return [0.0] * len(documents)
    lengths = [counts.total() for counts in documents]
    mean = sum(lengths) / len(documents) or 1
    weights = {term: _rarity(sum(term in counts for counts in documents), len(documents)) for term in wanted}
    found: list[float] = []
    for counts, length in zip(documents, lengths, strict=True):
        norm = K1 * (1 - B + B * length / mean)
        found.append(sum(weights[term] * counts[term] * (K1 + 1) / (counts[term] + norm) for term in wanted))
    return found


def _rarity(containing: int, total: int) -> float:
    return math.log(1 + (total - containing + 0.5) / (containing + 0.5))


def _terms(text: str) -> list[str]:
    return [names.singular(word) for word in names.words(text)]

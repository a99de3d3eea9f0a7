"""An estimate of how many tokens a text costs a model, on the safe side.

Exact counting needs a vocabulary of some 70 MiB in memory, more than the rest of the program; a budget needs only a
bound that holds. The estimate stays at or above the o200k count for prose, JSON, code, API text, base64, hexadecimal
and random text (tested against a real tokenizer), by a twentieth to a quarter for most of it. Only words that are in no
language cost more than it says.
"""

from __future__ import annotations

import math
import re

_PIECE = re.compile(
    r"(?P<dense>[A-Za-z0-9+/=_-]{24,})"
    r"|(?P<word> ?[^\W\d_]+)"
    r"|(?P<digits> ?[0-9]+)"
    r"|(?P<marks> ?[^\w\s]+|_+)"
    r"|(?P<space>\s+)"
    r"|(?P<other>.)"
)
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_JSON = re.compile(r"[\"{}\[\]():,.?!]+")
_DIGIT = re.compile(r"[0-9]")
_UNLIKE_A_WORD = re.compile(r"[^AEIOUYaeiouy]{5}|[A-Za-z]{18}")
_MOST_CHARACTERS = 16
"""Characters that one token's worth of the estimate holds at most; ordinary text has four."""


def estimate(text: str) -> int:
    """Return a number of tokens that `text` very probably does not exceed."""
    return math.ceil(cost(text))


def cost(text: str) -> float:
    """Return the estimate before rounding: costs of lines, and one for each line's end, may be added up."""
    return sum(_cost(piece) for piece in _PIECE.finditer(text))


def fits(text: str, budget: int) -> bool:
    """Whether `text` costs at most `budget` tokens; looks at no more of it than that takes."""
    return len(text) * 3 <= budget or prefix(text, budget) == len(text)


def prefix(text: str, budget: int) -> int:
    """Return how many characters of `text` cost at most `budget` tokens."""
    spent = 0.0
    end = 0
    for piece in _PIECE.finditer(text, 0, min(len(text), max(0, budget) * _MOST_CHARACTERS)):
        spent += _cost(piece)
        if spent > budget:
            return end + int(len(piece.group()) * max(0.0, 1 - (spent - budget) / _cost(piece)))
        end = piece.end()
    return end


def _cost(piece: re.Match[str]) -> float:
    text = piece.group()
    size = len(text)
    match piece.lastgroup:
        case "dense":
            return _dense(text)
        case "word":
            return _letters(text.lstrip(" "))
        case "digits":
            # A space before a number is a token of its own.
            return 1 + math.ceil((size - 1) / 3) if text[0] == " " else math.ceil(size / 3)
        case "space":
            return text.count("\n") + (0 if text[-1] == "\n" else 0.5 + size / 16)
        case _:
            return _marks(text.lstrip(" "))


def _dense(text: str) -> float:
    """A long run without blanks: a name of many words, or something encoded."""
    parts = _PART.findall(text)
    if parts and len(text) / len(parts) >= 4 and not any(_UNLIKE_A_WORD.search(part) for part in parts):
        marks = sum(1 for mark in text if mark in "+/=-")
        return marks + sum(_letters(part) for part in parts)
    return len(text) * (0.75 if _DIGIT.search(text) else 0.62)


def _letters(word: str) -> float:
    if not word.isascii():
        return 0.5 + sum(0.22 if letter < "\x80" else 0.35 if letter < "\u3000" else 0.68 for letter in word)
    return sum(_part(part) for part in _PART.findall(word))


def _part(part: str) -> float:
    if part.isdigit():
        return math.ceil(len(part) / 3)
    if _UNLIKE_A_WORD.search(part):
        return max(1.0, len(part) * 0.6)
    return math.ceil(len(part) / 9) * 1.03


def _marks(text: str) -> float:
    if not text.isascii():
        return 0.3 + sum(_per_character(ord(character)) for character in text)
    if len(text) <= 2:
        return len(text) * 0.2 + 0.8
    return len(text) * 0.2 + 0.8 if _JSON.fullmatch(text) else len(text) * 0.75


def _per_character(point: int) -> float:
    if point < 0x80:
        return 0.75
    if point < 0x3000:
        return 1.0
    return 1.5 if point < 0x10000 else 3.0

"""What people and models may see of a connector's text (acceptance 72).

A description can carry instructions that a person does not see: terminal escapes, zero-width and bidirectional
characters, tag characters, HTML comments. They are taken out of what is shown, and their presence is told.
"""

from __future__ import annotations

import re
import unicodedata

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Format characters that ordinary text needs (emoji, Persian, Indic scripts)."""


def visible(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without what cannot be seen, and the kinds of things that were taken out, sorted."""
    found: set[str] = set()
    text, escapes = _ANSI.subn("", text)
    if escapes:
        found.add("terminal escapes")
    text, comments = _COMMENT.subn("", text)
    if comments:
        found.add("HTML comments")
    kept: list[str] = []
    for position, character in enumerate(text):
        if _hidden(character) or (character in _JOINERS and not _joins(text, position)):
            found.add("hidden characters")
        else:
            kept.append(character)
    return "".join(kept), tuple(sorted(found))


def one_line(text: str, limit: int) -> str:
    """Return the visible text on one line, at most `limit` characters."""
    line = " ".join(visible(text)[0].split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    if character in _JOINERS:
        return False
    category = unicodedata.category(character)
    return category in {"Cc", "Cf", "Co", "Cs", "Cn"} or 0xFE00 <= ord(character) <= 0xFE0F or _selector(character)


def _selector(character: str) -> bool:
    return 0xE0100 <= ord(character) <= 0xE01EF


def _joins(text: str, position: int) -> bool:
    """A joiner is kept only between two characters that are not ASCII, where scripts and emoji use it."""
    before = text[position - 1] if position else ""
    after = text[position + 1] if position + 1 < len(text) else ""
    if text[position] in "\ufe0e\ufe0f":
        return bool(before) and (ord(before) > 0x7F or before in "#*0123456789")
    return ord(before or " ") > 0x7F and ord(after or " ") > 0x7F

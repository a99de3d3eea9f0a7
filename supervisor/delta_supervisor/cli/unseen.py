"""Text for a terminal: what would not be seen, or would move what is seen, is written out.

What connectors and programs say stands between the words that a person decides by; an escape in it could rewrite them.
"""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t\u200c\u200d"
"""Line ends, tabs, and the joiners that scripts and emoji need."""


def spelled_out(text: str) -> str:
    r"""Return `text` with every character that is no visible one as `\u001b`, `\U000e0041`."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(each if _is_seen(each) else _code(each) for each in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() or character in _KEPT or unicodedata.category(character) == "Zs"


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

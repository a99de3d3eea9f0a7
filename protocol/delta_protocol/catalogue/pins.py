"""A tool's pin: what it claimed to be when it was looked at (acceptance 71)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delta_protocol.codecs import exact_json

PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


_WORDS = {"inputSchema": "parameters", "outputSchema": "result"}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return, in words, which of the pinned members of two upstream tool objects differ."""
    return tuple(_WORDS.get(key, key) for key in PINNED if before.get(key) != now.get(key))


def digest(definition: Mapping[str, Any]) -> str:
    """Return sha256 (hex) over the canonical form of everything that tells what the tool does.

    `definition` is the upstream tool object; icons, `_meta` and unknown members do not count.
    """
    return exact_json.digest({key: definition[key] for key in PINNED if key in definition})

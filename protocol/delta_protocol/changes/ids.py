"""Names of deltas: `d_` and 12 base32 characters, unguessable."""

from __future__ import annotations

import re
import secrets

DELTA_ID = re.compile(r"d_[a-z2-7]{12}")

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def new_delta_id() -> str:
    """Return a name that no other delta has."""
    return "d_" + "".join(secrets.choice(_ALPHABET) for _ in range(12))

"""Which scopes are asked for (spec 1.16: scope selection, step-up)."""

from __future__ import annotations

from collections.abc import Iterable

OFFLINE = "offline_access"


def choose(
    configured: Iterable[str], challenged: Iterable[str], supported: Iterable[str] | None, offered: Iterable[str] | None
) -> tuple[str, ...]:
    """Return the scopes of a first request, none to leave the parameter out.

    Configured ones and the challenge's together; where there are none, all that the resource supports. `offered` are
    the authorisation server's: `offline_access` is added only where it is among them.
    """
    chosen = union(configured, challenged) or union(supported or ())
    if chosen and OFFLINE in (offered or ()):
        chosen = union(chosen, (OFFLINE,))
    return chosen


def union(*parts: Iterable[str]) -> tuple[str, ...]:
    """Return every scope of the parts once, in order: what was asked before stays asked (spec 1.16, step-up)."""
    return tuple(dict.fromkeys(scope for part in parts for scope in part if scope))

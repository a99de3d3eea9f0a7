"""Deadlines between trio's clock and the wire.

`trio.current_time()` has an offset of its own in every process, so the wire carries absolute CLOCK_MONOTONIC
nanoseconds, which all processes of a host share.
"""

from __future__ import annotations

import math
import time

import trio

from delta_protocol.wire.envelope import NO_DEADLINE


def to_wire(deadline: float) -> int:
    """Return a trio deadline as nanoseconds for the wire."""
    if deadline == math.inf:
        return NO_DEADLINE
    return time.monotonic_ns() + int((deadline - trio.current_time()) * 1e9)


def from_wire(deadline: int) -> float:
    """Return a deadline from the wire on this process's trio clock."""
    if deadline == NO_DEADLINE:
        return math.inf
    return trio.current_time() + (deadline - time.monotonic_ns()) / 1e9

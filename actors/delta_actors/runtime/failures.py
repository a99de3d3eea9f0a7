"""How an exception becomes what may cross a boundary."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import cast

import trio

from delta_protocol.errors import DeadlineExceeded, DeltaError, Failure, Internal

log = logging.getLogger("delta.actors")


def sole(error: BaseException) -> BaseException:
    """Return the exception inside groups of one: what a nursery makes of a single failure."""
    inner: Sequence[BaseException] = [error]
    while len(inner) == 1:
        error = inner[0]
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions if _is_group(error) else ()
    return error


def _is_group(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup)


def failure_of(error: BaseException, role: str) -> Failure:
    """Return the form in which a handler's error crosses the link.

    What is no `DeltaError` stays here: the log gets the traceback, the caller an id to find it by.
    """
    error = sole(error)
    if isinstance(error, DeltaError):
        return error.to_failure()
    if isinstance(error, trio.TooSlowError):
        return DeadlineExceeded(f"{role} waited too long for something").to_failure()
    correlation = secrets.token_hex(6)
    log.error("%s: a handler failed [%s]", role, correlation, exc_info=error)
    message = f"a fault in {role}; its log has the details under {correlation}"
    return Internal(message, correlation=correlation).to_failure()

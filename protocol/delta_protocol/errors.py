"""Every error that crosses a boundary, as one tree.

    DeltaError
    ├── Invalid              the request is wrong: says what and where
    ├── NotFound             a name or id that does not exist (``detail["nearest"]`` when there is one)
    ├── Refused              allowed by no rule: mode, permission, state
    │   └── WriteNotPlanned  a write that did not come from the journal's plan
    ├── Conflict             the world changed since it was read
    ├── LimitExceeded        a stated limit was crossed (``detail["limit"]`` names it)
    ├── Overloaded           try again later (``detail["retry_after"]``, seconds)
    ├── DeadlineExceeded     the caller's deadline passed
    ├── ActorCrashed         the actor died with the call in flight (``detail["executed"]``: "no" | "unknown")
    ├── ActorUnavailable     the actor is not running and did not come back before the deadline
    ├── ConnectorFailed      a connector could not be reached or answered wrongly
    ├── ProgramFailed        the submitted program failed (name, message, line, column in ``detail``)
    ├── ProtocolViolation    the peer broke the wire protocol; the link is closed
    └── Internal             our own fault

Between processes an error is a `Failure` (code, message, detail): never a pickle, never a traceback.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

Detail = dict[str, Any]


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error as it crosses a link. `detail` holds plain JSON values only."""

    code: str
    message: str
    detail: Detail = {}


class DeltaError(Exception):
    """Base of all typed errors. `code` is stable and part of the wire; `message` is for people."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **detail: Any) -> None:  # noqa: ANN401 - any JSON value
        super().__init__(message)
        self.message = message
        self.detail: Detail = detail

    def to_failure(self) -> Failure:
        """Return the form that crosses a link."""
        return Failure(self.code, self.message, self.detail)


class Invalid(DeltaError):
    """The request is wrong; the message says what and where."""

    code = "invalid"


class NotFound(DeltaError):
    """A name or id that does not exist."""

    code = "not_found"


class Refused(DeltaError):
    """Understood, but not allowed: a mode, a permission or a state stands against it."""

    code = "refused"


class WriteNotPlanned(Refused):
    """A write that did not come over the journal's link with delta, call number and intent."""

    code = "write_not_planned"


class Conflict(DeltaError):
    """The world is no longer what the request was based on."""

    code = "conflict"


class LimitExceeded(DeltaError):
    """A stated limit was crossed; `detail["limit"]` names it."""

    code = "limit_exceeded"


class Overloaded(DeltaError):
    """No room now; `detail["retry_after"]` says in how many seconds to try again."""

    code = "overloaded"


class DeadlineExceeded(DeltaError):
    """The caller's deadline passed before there was an answer."""

    code = "deadline_exceeded"


class ActorCrashed(DeltaError):
    """The actor died while the call was in flight.

    `detail`: `actor`, `incarnation`, `executed` ("no": the request never left here or was never read by a
    greeted incarnation; "unknown": it may have run).
    """

    code = "actor_crashed"


class ActorUnavailable(DeltaError):
    """The actor is not running and was not back before the deadline."""

    code = "actor_unavailable"


class ConnectorFailed(DeltaError):
    """A connector could not be reached, died, or answered against the protocol."""

    code = "connector_failed"


class ProgramFailed(DeltaError):
    """The submitted program failed; `detail` has `name`, `line`, `column`, `source` where known."""

    code = "program_failed"


class ProtocolViolation(DeltaError):
    """The peer broke the wire protocol; its link is closed."""

    code = "protocol_violation"


class Internal(DeltaError):
    """A fault of ours."""

    code = "internal"


ERRORS: dict[str, type[DeltaError]] = {
    error.code: error
    for error in (
        Invalid,
        NotFound,
        Refused,
        WriteNotPlanned,
        Conflict,
        LimitExceeded,
        Overloaded,
        DeadlineExceeded,
        ActorCrashed,
        ActorUnavailable,
        ConnectorFailed,
        ProgramFailed,
        ProtocolViolation,
        Internal,
    )
}


def from_failure(failure: Failure) -> DeltaError:
    """Return the exception for a failure that crossed a link; an unknown code becomes `Internal`."""
    error = ERRORS.get(failure.code, Internal)(failure.message)
    error.detail = dict(failure.detail)
    return error

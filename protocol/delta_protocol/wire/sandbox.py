"""Messages to the sandbox, which runs programs in jailed workers and turns their recordings into plans."""

from __future__ import annotations

import msgspec

from delta_protocol.changes.model import Plan, Read, Value
from delta_protocol.config import ProgramLimits
from delta_protocol.wire.message import Request


class ProgramOutcome(msgspec.Struct, frozen=True, array_like=True):
    """Either `error`, or `returned` and `plan` (without calls when nothing is to change)."""

    returned: Value = Value(b"null")
    plan: Plan | None = None
    error: ProgramError | None = None
    console: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    notes: tuple[str, ...] = ()
    fuel: int = 0


class RunProgram(Request[ProgramOutcome], frozen=True):
    """Run `code` once. Reads run through the registry; writes are only recorded.

    `frozen_time` (ms since the epoch) and `seed` fix `Date.now` and `Math.random`.
    `Progress` items flow down; a connector's `Question` flows down and its `Answer` up.
    """

    code: str
    catalogue: int
    frozen_time: int
    seed: int
    limits: ProgramLimits = ProgramLimits()


class ProgramError(msgspec.Struct, frozen=True, array_like=True):
    """Why a program failed. `kind`: syntax | runtime | host | limit | deadlock | deadline | not_yet_real | crash.

    Lines and columns are 1-based in the submitted text; 0 = unknown.
    """

    kind: str
    name: str
    message: str
    line: int = 0
    column: int = 0
    source: str = ""
    """The offending line with one line before it."""
    limit: str = ""


Inbox = RunProgram

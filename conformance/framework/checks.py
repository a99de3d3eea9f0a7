"""What a check is, and how one is run: a function named by its id, whose docstring says what holds.

It returns nothing, or a figure to be shown; it fails by raising. With a parameter `era` it is run in both.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from conformance.framework.target import Target
    from conformance.framework.wire import Era

ERAS: tuple[Era, ...] = ("legacy", "modern")
_NAME = re.compile(r"(cs|own)_(\d\d)_(\d\d)_\w+\Z")
_LONGEST = 300


class NotApplicable(Exception):
    """The server does not have what the check is about."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check in one era, or in none of its own."""

    id: str
    says: str
    function: Callable[..., str | None]
    era: Era | None = None

    @property
    def title(self) -> str:
        """The id, with the era where it has one."""
        return self.id if self.era is None else f"{self.id} {self.era}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a check. `why`: the reason, or a figure where it passed."""

    check: Check
    result: Literal["passed", "failed", "not applicable"]
    why: str = ""


def checks_of(modules: Iterable[ModuleType], eras: Iterable[Era] = ERAS) -> list[Check]:
    """Return the checks of modules in their order, those with eras once for each of `eras`."""
    found: list[Check] = []
    for module in modules:
        for name, function in vars(module).items():
            match = _NAME.match(name)
            if match is None:
                continue
            identity = f"{match[1].upper()}-{match[2]}-{match[3]}"
            says = " ".join((inspect.getdoc(function) or "").split())
            each = eras if "era" in inspect.signature(function).parameters else (None,)
            found += [Check(identity, says, function, era) for era in each]
    return found


def refusal(attempt: Callable[[], object]) -> str:
    """Return the message of the exception that an attempt ends in; fails where there is none."""
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - which one it is does not matter to who asks for its words
        return str(error)
    raise AssertionError("it was accepted")


def _told(error: Exception) -> str:
    """Return what went wrong; where the exception does not say it, the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {str(error) or frames[-1].line}"


def run(check: Check, target: Target) -> Outcome:
    """Run one check; whatever it raises is its result."""
    chosen: dict[str, Any] = {} if check.era is None else {"era": check.era}
    try:
        figure = check.function(target, **chosen)
    except NotApplicable as reason:
        return Outcome(check, "not applicable", str(reason))
    except Exception as error:  # noqa: BLE001 - a check may meet anything: that is its result
        return Outcome(check, "failed", _told(error)[:_LONGEST])
    return Outcome(check, "passed", figure or "")

"""What a program gave, in words and for programs: its error, its value, its console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delta_protocol.answers.parts import spell
from delta_protocol.changes.holes import Filler, Tree, unpack
from delta_protocol.changes.model import Path, Plan, ResultRef, Value
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.config import ProgramLimits
from delta_protocol.wire.sandbox import ProgramError

LONGEST_MESSAGE = 2_000
"""Characters of an error's message that are passed on: a program can throw anything."""

_LIMITS = frozenset(ProgramLimits.__struct_fields__)

Numbers = Mapping[int, tuple[int, Path]]
"""Which call makes a recorded write, and where in the call's result that write's own result lies."""


def error_text(error: ProgramError) -> str:
    """Return what went wrong, where, and that nothing was changed."""
    what = f"{error.name}: {error.message}" if error.name and error.name not in error.message else error.message
    lines = [what]
    if error.line:
        column = f", column {error.column}" if error.column else ""
        lines.append(f"at line {error.line}{column} of the program" + (":" if error.source else ""))
    if error.source:
        lines.append(error.source.rstrip("\n"))
    if error.limit in _LIMITS:
        lines.append(f"The limit is `{error.limit}` under [limits.program].")
    lines.append("Nothing was changed.")
    return "\n".join(lines)


def reason(error: ProgramError) -> str:
    """Return the same in one line, for the journal."""
    where = f" (line {error.line})" if error.line else ""
    return f"{error.name}: {error.message}{where}"


def error_facts(error: ProgramError) -> dict[str, Any]:
    """Return the same for programs: the `error` of structured content."""
    facts: dict[str, Any] = {"kind": error.kind, "name": error.name, "message": error.message[:LONGEST_MESSAGE]}
    if error.line:
        facts |= {"line": error.line, "column": error.column}
    if error.limit:
        facts["limit"] = error.limit
    return facts


def planned_value(value: Value, plan: Plan) -> Any:  # noqa: ANN401 - any JSON value
    """Return the program's value before its calls are made: what is not there yet reads `⟨call 2: id⟩`."""
    numbers = {write: (call.number, path) for call in plan.calls for write, path in call.writes}
    return _shown(unpack(value), numbers)


def _shown(tree: Tree, numbers: Numbers) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(tree, Filler):
        return "".join(_name(part, numbers) if isinstance(part, ResultRef) else part.text for part in tree.parts)
    if is_object(tree):
        return {key: _shown(item, numbers) for key, item in tree.items()}
    if is_array(tree):
        return [_shown(item, numbers) for item in tree]
    return tree


def _name(ref: ResultRef, numbers: Numbers) -> str:
    number, path = numbers.get(ref.write, (ref.write, ()))
    inner = spell((*path, *ref.path)).removeprefix(".")
    return f"⟨call {number}: {inner}⟩" if inner else f"⟨call {number}⟩"

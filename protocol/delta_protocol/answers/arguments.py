"""The arguments of the three tools, checked before anything runs.

An argument that should be a list or a boolean and comes as its JSON text is taken for what it says (acceptance 24).
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from delta_protocol.answers.refs import delta_id
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_object
from delta_protocol.errors import Invalid
from delta_protocol.nearest import did_you_mean
from delta_protocol.wire.message import Json


class DeltaArguments(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`delta`: a program, run and applied."""

    code: str
    dry_run: bool = False
    again: bool = False


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`delta_read`: look-ups, or a program that is only planned."""

    refs: tuple[str, ...] | None = None
    code: str | None = None


class ApplyArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`delta_apply`: one of `delta` and `undo`, with what belongs to each."""

    delta: str | None = None
    onto: Literal["now"] | None = None
    resolve: Literal["finish", "roll_back"] | None = None
    undo: str | None = None
    force: tuple[str, ...] = ()


ArgumentsT = TypeVar("ArgumentsT", DeltaArguments, ReadArguments, ApplyArguments)

_SIGNATURES: dict[type[Any], str] = {
    DeltaArguments: "delta { code: string, dryRun?: boolean, again?: boolean }",
    ReadArguments: "delta_read { refs?: string[], code?: string }",
    ApplyArguments: 'delta_apply { delta: id, onto?: "now", resolve?: "finish" | "roll_back" } or '
    "{ undo: id, force?: string[] }",
}
_MAX_REFS = 32
"""Look-ups in one request; each must find room in the same answer."""
_NOT_TEXT = frozenset({"refs", "dryRun", "again", "force"})


def delta_arguments(text: Json) -> DeltaArguments:
    """Return the arguments of `delta`. Raises `Invalid`, with the signature."""
    given = _read(DeltaArguments, text)
    if not given.code.strip():
        raise _wrong(DeltaArguments, "code is empty")
    return given


def read_arguments(text: Json) -> ReadArguments:
    """Return the arguments of `delta_read`. Raises `Invalid`, with the signature."""
    given = _read(ReadArguments, text)
    if (given.refs is None) == (given.code is None):
        raise _wrong(ReadArguments, "give either refs or code")
    if given.refs is not None and not given.refs:
        raise _wrong(ReadArguments, 'refs is empty; [""] lists everything')
    if given.refs is not None and len(given.refs) > _MAX_REFS:
        raise _wrong(ReadArguments, f"{len(given.refs)} refs are too many for one answer; give at most {_MAX_REFS}")
    if given.code is not None and not given.code.strip():
        raise _wrong(ReadArguments, "code is empty")
    return given


def apply_arguments(text: Json) -> ApplyArguments:
    """Return the arguments of `delta_apply`. Raises `Invalid`, with the signature."""
    given = _read(ApplyArguments, text)
    if (given.delta is None) == (given.undo is None):
        raise _wrong(ApplyArguments, "give either delta or undo")
    if given.undo is not None and (given.onto or given.resolve):
        raise _wrong(ApplyArguments, "onto and resolve belong to delta, not to undo")
    if given.delta is not None and given.force:
        raise _wrong(ApplyArguments, "force belongs to undo")
    if given.onto and given.resolve:
        raise _wrong(ApplyArguments, "give onto or resolve, not both")
    delta_id(given.delta or given.undo or "")
    return given


def _read(kind: type[ArgumentsT], text: Json) -> ArgumentsT:
    given = exact_json.decode(text, what="arguments")
    if not is_object(given):
        raise _wrong(kind, "the arguments must be an object")
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            raise _wrong(kind, f"there is no argument {name!r}" + (f"; {near}" if near else ""))
    plain = {name: _unquoted(name, value) for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(plain, type=kind)
    except msgspec.ValidationError as error:
        raise _wrong(kind, str(error).replace(" - at `$.", " at `")) from None


def _unquoted(name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if name not in _NOT_TEXT or not isinstance(value, str):
        return value
    try:
        return exact_json.decode(value)
    except Invalid:
        return [value] if name in ("refs", "force") else value


def _wrong(kind: type[Any], what: str) -> Invalid:
    return Invalid(f"{what}\n{_SIGNATURES[kind]}")

"""Arguments are checked here, before anything is sent (acceptance 12, 24)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, cast

from delta_protocol.catalogue import schemas, signatures, validators
from delta_protocol.catalogue.model import Tool
from delta_protocol.catalogue.names import word_set
from delta_protocol.catalogue.notation import Level
from delta_protocol.catalogue.visible import one_line
from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.nearest import did_you_mean
from delta_protocol.wire.message import Json

Path = tuple[str | int, ...]

MAX_ERRORS = 5
ERROR_LENGTH = 200
SIGNATURE_LENGTH = 600
_OPEN_KEYWORDS = word_set(
    "additionalProperties patternProperties unevaluatedProperties propertyNames allOf anyOf oneOf if then else "
    "not $ref dependentSchemas dependencies"
)
"""Where one of these stands, the listed properties need not be all there are."""


class Fitted(NamedTuple):
    """Arguments that fit a schema. `converted` names those that came as JSON text and were parsed (acceptance 24)."""

    arguments: Json
    converted: tuple[str, ...] = ()


def check(tool: Tool, arguments: Json, holes: Iterable[Path] = ()) -> Json:
    """Return the arguments as they may be sent: a JSON string where only an object or array fits is parsed once.

    `holes` are paths whose values come later; what is wrong with those is not looked at.
    Raises `Invalid` as `fit` does. A name that the schema does not know is refused unless the schema says that there
    may be others: a misspelt optional parameter must not vanish.
    """
    if tool.fault:
        raise Invalid(f"{tool.name} cannot be called: {tool.fault}", tool=tool.name)
    line = partial(signatures.tool_line, tool, Level.TYPED)
    return fit(tool.name, tool.input_schema, arguments, line=line, closed=True, holes=holes).arguments


def fit(
    name: str,
    input_schema: Json,
    arguments: Json,
    *,
    line: Callable[[], str],
    closed: bool = False,
    holes: Iterable[Path] = (),
) -> Fitted:
    """Return the arguments of the tool `name` as its schema takes them; `line` gives its signature on one line.

    `closed` refuses names that the schema does not list, even where it does not forbid others.
    Raises `Invalid` with at most three lines (what is missing, unknown, wrong; the signature) and `detail` `tool`,
    `missing`, `unknown`, `wrong`.
    """
    value = exact_json.decode(arguments, what=f"arguments of {name}")
    if not isinstance(value, dict):
        raise Invalid(_message(name, [f"arguments are one object, not {_kind(value)}"], line()), tool=name)
    given = cast("dict[str, Any]", value)
    schema = schemas.as_schema(exact_json.decode(input_schema))
    converted = _converted(given, schema)
    others = _unknown(given, schema)
    unknown = list(others) if closed else []
    validator = validators.compiled(input_schema)
    missing: list[str] = []
    wrong: list[str] = []
    skipped = {tuple(hole) for hole in holes}
    if not validator.is_valid(given):
        for error in validator.iter_errors(given):
            _sort(error, skipped, missing, unknown, wrong)
        if missing or wrong:
            unknown += [other for other in others if other not in unknown]
    if missing or unknown or wrong:
        raise Invalid(
            _message(name, _problems(missing, unknown, wrong, schema), line()),
            tool=name,
            missing=missing,
            unknown=unknown,
            wrong=wrong,
        )
    return Fitted(exact_json.encode(given) if converted else arguments, converted)


def _converted(given: dict[str, Any], schema: schemas.Schema) -> tuple[str, ...]:
    """Parse strings in place where the schema takes objects or arrays but no strings; return whose they were."""
    changed: list[str] = []
    for name, part in schemas.properties(schema).items():
        text = given.get(name)
        kinds = schemas.types(part, schema) - {"null"}
        if not isinstance(text, str) or not kinds or not kinds <= {"object", "array"}:
            continue
        try:
            parsed = exact_json.decode(text)
        except Invalid:
            continue
        if _kind(parsed) in kinds:
            given[name] = parsed
            changed.append(name)
    return tuple(changed)


def _unknown(given: dict[str, Any], schema: schemas.Schema) -> list[str]:
    if "properties" not in schema or _OPEN_KEYWORDS & set(schema):
        return []
    known = schemas.properties(schema)
    return [name for name in given if name not in known]


def _sort(error: Any, skipped: set[Path], missing: list[str], unknown: list[str], wrong: list[str]) -> None:  # noqa: ANN401
    """Put one `jsonschema_rs.ValidationError` where it belongs."""
    path: Path = tuple(error.instance_path)
    if any(path[: len(hole)] == hole for hole in skipped):
        return
    kind = error.kind.name
    if kind == "required" and not path:
        missing.append(str(error.kind.property))
    elif kind == "additionalProperties" and not path:
        unknown += [name for name in error.kind.unexpected if name not in unknown]
    elif len(wrong) < MAX_ERRORS:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        wrong.append(one_line(f"{place}: {error.message}" if place else str(error.message), ERROR_LENGTH))


def _problems(missing: list[str], unknown: list[str], wrong: list[str], schema: schemas.Schema) -> list[str]:
    known = list(schemas.properties(schema))
    parts: list[str] = []
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    if unknown:
        parts.append(f"unknown: {', '.join(_with_nearest(name, known) for name in unknown[:MAX_ERRORS])}")
    if wrong:
        parts.append(f"wrong: {'; '.join(wrong)}")
    return parts


def _with_nearest(name: str, known: list[str]) -> str:
    near, shown = did_you_mean(name, known), one_line(name, 60)
    return f"{shown} ({near})" if near else shown


def _message(name: str, problems: list[str], line: str) -> str:
    return f"wrong arguments for {name}\n{' · '.join(problems)}\n{one_line(line, SIGNATURE_LENGTH)}"


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "null" if value is None else "string" if isinstance(value, str) else "number"

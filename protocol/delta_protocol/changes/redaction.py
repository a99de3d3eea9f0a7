"""Which values are secrets, by their field's name, and how they are kept out of all that is stored (acceptance 76)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from delta_protocol.changes.model import Plan, PlannedCall, ReadBack, Value
from delta_protocol.codecs import exact_json
from delta_protocol.codecs.exact_json import is_array, is_object
from delta_protocol.wire.message import Json

_SECRET = re.compile(
    r"(^|[_\-.\s])(pass(word|wd|phrase)?|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret"
    r"|credentials?|authorization|cookie|session[_-]?key)$",
)
_NOT_SECRET = re.compile(r"(page|next|continuation|cursor|sync|max|min|total|count)[_-]?tokens?$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_LITERAL = re.compile(
    r"""(?<![\w$])(?P<name>[\w$][\w$\-]{0,60})["']?\s*[:=]\s*(?P<quote>["'`])(?P<text>(?:\\.|(?!(?P=quote)).)*)(?P=quote)""",
    re.DOTALL,
)

MARK = "‹redacted›"
_SHORTEST = 6


def is_secret(name: str) -> bool:
    """Return whether a field of this name holds a secret (`password`, `apiKey`, `client_secret`; not `page_token`)."""
    plain = _CAMEL.sub("_", name).lower()
    return bool(_SECRET.search(plain)) and not _NOT_SECRET.search(plain)


def secrets_in(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """Yield the text of every secret in the value, found by its key."""
    if is_object(value):
        for key, item in value.items():
            if is_secret(key):
                yield from _texts(item)
            else:
                yield from secrets_in(item)
    elif is_array(value):
        for item in value:
            yield from secrets_in(item)


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        yield value
    elif is_object(value):
        yield from _texts(list(value.values()))
    elif is_array(value):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def secrets_in_code(code: str) -> Iterator[str]:
    """Yield the literals that a program gives to something with a secret's name, by `name: "..."` or `name = "..."`.

    A program that fails hands in no plan in which its secrets could be seen.
    """
    for found in _LITERAL.finditer(code):
        if is_secret(found["name"]):
            yield found["text"]


class Redactor:
    """Replaces secret values: whole under a secret's key, elsewhere as known text of at least six characters."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = sorted({value for value in known if len(value) >= _SHORTEST}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text without known secrets."""
        for value in self._known:
            text = text.replace(value, MARK)
        return text

    def value(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON value without secrets, by key and by known value."""
        if is_object(value):
            return {
                self.text(key): MARK if is_secret(key) and item is not None else self.value(item)
                for key, item in value.items()
            }
        if is_array(value):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def json(self, text: Json) -> Json:
        """Return the JSON text without secrets; exactly as it was when there are none."""
        value = exact_json.decode(text)
        clean = self.value(value)
        return text if clean == value else exact_json.encode(clean)


def redacted_plan(plan: Plan, redactor: Redactor) -> Plan:
    """Return the plan as it may be stored. Its hash stays that of the true plan."""

    def value(given: Value) -> Value:
        return msgspec.structs.replace(given, json=redactor.json(given.json))

    def read(given: ReadBack | None) -> ReadBack | None:
        if given is None:
            return None
        return msgspec.structs.replace(
            given,
            arguments=value(given.arguments),
            expect=value(given.expect),
            contains=tuple((name, value(item)) for name, item in given.contains),
            lacks=tuple((name, value(item)) for name, item in given.lacks),
        )

    def call(given: PlannedCall) -> PlannedCall:
        inverse = given.inverse
        kept = None if inverse is None else msgspec.structs.replace(inverse, arguments=value(inverse.arguments))
        return msgspec.structs.replace(
            given,
            arguments=value(given.arguments),
            words=redactor.text(given.words),
            inverse=kept,
            read_back=read(given.read_back),
            probe=read(given.probe),
        )

    preconditions = tuple(
        msgspec.structs.replace(each, before=redactor.json(each.before)) for each in plan.preconditions
    )
    return msgspec.structs.replace(plan, calls=tuple(call(each) for each in plan.calls), preconditions=preconditions)


def secrets_of(plan: Plan) -> set[str]:
    """Return every secret value that the plan's arguments and before-images hold under a secret's name."""
    texts = [call.arguments.json for call in plan.calls] + [each.before for each in plan.preconditions]
    return {secret for text in texts for secret in secrets_in(exact_json.decode(text))}

"""Matching URIs against RFC 6570 templates: the values that expanding the template to this URI would take.

Every operator of the RFC is known; `{var}` and its kin take one name's value, without prefix or explode modifiers, and
query names may come in any order or not at all. A value that would lead out of its place is no match: a `..` segment,
a NUL, or a slash in a variable that may not hold one, however it is encoded (spec 1.11: no path traversal).
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([A-Za-z0-9_.,%]+)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SIMPLE, _RESERVED = r"[^/?#,&;=]*", r"[^?#]*"
_JOINED = {".": r"\.", "/": "/"}


class BadTemplate(ValueError):
    """No template that can be matched; says where."""


class UriTemplate:
    """A compiled template. `names` are its variables in order."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.names: list[str] = []
        self._open: set[str] = set()
        self._query: list[str] = []
        pattern, end = "", 0
        for found in _EXPRESSION.finditer(template):
            pattern += self._literal(template[end : found.start()])
            pattern += self._expression(found[1], found[2].split(","))
            end = found.end()
        pattern += self._literal(template[end:])
        if self._query:
            pattern += r"(?:[?&](?P<query__>[^#]*))?"
        self._pattern = re.compile(pattern + r"\Z")

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values by name, None where the URI does not fit."""
        found = self._pattern.match(uri)
        if found is None:
            return None
        raw = {name: found[name] for name in self.names if name not in self._query}
        for part in (found["query__"] or "").split("&") if self._query else ():
            name, _, value = part.partition("=")
            if name in self._query:
                raw.setdefault(name, value)
        values: dict[str, str] = {}
        for name, text in raw.items():
            value = _decoded(text, slashes=name in self._open or name in self._query)
            if value is None:
                return None
            values[name] = value
        return values

    def _literal(self, text: str) -> str:
        if "{" in text or "}" in text:
            raise BadTemplate(f"{self.template}: an expression that is not understood")
        if text and self._query:
            raise BadTemplate(f"{self.template}: nothing may follow the query")
        return re.escape(text)

    def _expression(self, operator: str, names: list[str]) -> str:
        for name in names:
            if _NAME.match(name) is None or name in self.names:
                raise BadTemplate(f"{self.template}: {name!r} is no variable name, or there twice")
            self.names.append(name)
        if operator in ("?", "&") and operator:
            self._query += names
            return ""
        if self._query:
            raise BadTemplate(f"{self.template}: nothing may follow the query")
        if operator in ("+", "#"):
            self._open.update(names)
            groups = ",".join(f"(?P<{name}>{_RESERVED})" for name in names)
            return f"#{groups}" if operator == "#" else groups
        if operator == ";":
            return "".join(f";{name}(?:=(?P<{name}>{_SIMPLE}))?" for name in names)
        if operator in _JOINED:
            return "".join(f"{_JOINED[operator]}(?P<{name}>{_SIMPLE})" for name in names)
        return ",".join(f"(?P<{name}>{_SIMPLE})" for name in names)


def _decoded(text: str | None, *, slashes: bool) -> str | None:
    try:
        value = unquote_to_bytes(text or "").decode()
    except UnicodeDecodeError:
        return None
    if "\0" in value or ".." in re.split(r"[/\\]", value):
        return None
    return value if slashes or not ("/" in value or "\\" in value) else None

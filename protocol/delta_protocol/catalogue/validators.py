"""Compiled JSON Schemas (acceptance 16, 21; protocol 1.15).

2020-12 unless ``$schema`` says otherwise. A schema that its own dialect does not accept is tried in the older ones that
real servers mix in (draft-07, then draft-04). References stay within the document: nothing is fetched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol, cast

import jsonschema_rs

from delta_protocol.codecs import exact_json
from delta_protocol.errors import Invalid
from delta_protocol.wire.message import Json

MAX_CACHED = 1024
"""Compiled schemas kept; the least recently used goes first."""


class Validator(Protocol):
    """What is used of a jsonschema-rs validator."""

    def is_valid(self, instance: Any) -> bool:  # noqa: ANN401 - any JSON value
        """Whether the instance conforms."""
        ...

    def iter_errors(self, instance: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Iterate over `jsonschema_rs.ValidationError`."""
        ...


@lru_cache(maxsize=MAX_CACHED)
def compiled(schema: Json) -> Validator:
    """Return the validator of a schema. Raises `Invalid`, saying why, if no dialect accepts it."""
    value = exact_json.decode(schema, what="schema")
    first: Exception | None = None
    for make in (
        jsonschema_rs.validator_for,
        jsonschema_rs.Draft202012Validator,
        jsonschema_rs.Draft7Validator,
        jsonschema_rs.Draft4Validator,
    ):
        try:
            return cast("Validator", make(value, retriever=_never))
        except (ValueError, jsonschema_rs.ValidationError) as error:
            first = first or error
    raise Invalid(f"the tool's schema is not usable: {_first_line(first)}")


def _never(uri: str) -> Any:  # noqa: ANN401 - the library's signature
    raise ValueError(f"{uri} is not fetched: references must stay within the schema")


def _first_line(error: Exception | None) -> str:
    return str(error).partition("\n")[0]

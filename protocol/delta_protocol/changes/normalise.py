"""When two values count as the same although a connector stored one of them in its own way (plan-apply-undo 5.12)."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

from delta_protocol.codecs.exact_json import is_array, is_object

_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)$")


def same(wanted: Any, got: Any) -> bool:  # noqa: ANN401 - any JSON values
    """Return whether `got` is `wanted` as far as meaning goes.

    Text: NFC, line ends, trailing white space. Numbers: 1 = 1.0. ISO dates with an offset: as instants. A wanted
    object may have fewer fields than the one that was stored; arrays are compared in order.
    """
    if isinstance(wanted, str) and isinstance(got, str):
        return wanted == got or _text(wanted) == _text(got) or _same_instant(wanted, got)
    if isinstance(wanted, bool) or isinstance(got, bool):
        return wanted is got
    if isinstance(wanted, int | float) and isinstance(got, int | float):
        return wanted == got or _close(wanted, got)
    if is_object(wanted) and is_object(got):
        return all(key in got and same(item, got[key]) for key, item in wanted.items())
    if is_array(wanted) and is_array(got):
        return len(wanted) == len(got) and all(same(a, b) for a, b in zip(wanted, got, strict=True))
    return bool(wanted == got)


def _text(value: str) -> str:
    lines = unicodedata.normalize("NFC", value).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _close(a: float, b: float) -> bool:
    # Integers are exact; only a float on either side may have been rounded by a decimal column.
    return (isinstance(a, float) or isinstance(b, float)) and math.isclose(a, b, rel_tol=1e-12)


def _same_instant(a: str, b: str) -> bool:
    if not (_DATE.match(a) and _DATE.match(b)):
        return False
    try:
        return _instant(a) == _instant(b)
    except ValueError:
        return False


def _instant(value: str) -> datetime:
    return datetime.fromisoformat(value).astimezone(UTC)

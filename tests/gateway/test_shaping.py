from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_protocol.answers.parts import part
from delta_protocol.answers.refs import ResultPart, parse
from delta_protocol.codecs import exact_json
from delta_protocol.shaping import MORE, Cut, Place, Shaped, readable, shape, text_of
from delta_protocol.tokens import estimate, fits

ID = "r_abcdefghijkl"
WORDS = st.text('ab "\\\né猫', max_size=400)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text("xyz-", max_size=6), inner, max_size=30),
    max_leaves=120,
)


def read(whole: Any, cut: Cut) -> tuple[Any, Place]:
    """Read what was left out, by the reference as a reader would write it."""
    asked = parse(cut.ref)
    assert isinstance(asked, ResultPart)
    assert (asked.path, asked.start, asked.end) == (cut.path, cut.start, cut.end)
    return part(whole, asked.path, asked.start, asked.end), Place(ID, asked.path, asked.start or 0, asked.end)


def reached(whole: Any, shown: Any, place: Place, cuts: list[Cut], budget: int, depth: int = 0) -> Any:
    """Put the value together again from what is shown and, by reading on, what was left out."""
    assert depth < 500
    if isinstance(shown, str) and MORE in shown and cuts:
        head, _, _ = shown.partition(MORE)
        return join(head, follow(whole, cuts.pop(0), budget, depth))
    if isinstance(shown, list):
        items: list[Any] = []
        for index, item in enumerate(shown):
            if index == len(shown) - 1 and cuts and cuts[0].path == place.path and cuts[0].start is not None:
                return join(items, follow(whole, cuts.pop(0), budget, depth))
            items.append(reached(whole, item, place.below(index), cuts, budget, depth))
        return items
    if isinstance(shown, dict):
        fields: dict[str, Any] = {}
        for key, item in shown.items():
            if key.startswith(MORE):
                return join(fields, follow(whole, cuts.pop(0), budget, depth))
            fields[key] = reached(whole, item, place.below(key), cuts, budget, depth)
        return fields
    return shown


def follow(whole: Any, cut: Cut, budget: int, depth: int) -> Any:
    value, place = read(whole, cut)
    shaped = shape(value, budget, place)
    return reached(whole, shaped.value, place, list(shaped.cuts), budget, depth + 1)


def join(head: Any, rest: Any) -> Any:
    return rest if not head else {**head, **rest} if isinstance(head, dict) else head + rest


# acceptance 6
@settings(max_examples=150, deadline=None)
@given(VALUES, st.integers(250, 500))
def test_everything_left_out_can_be_read(value: Any, budget: int) -> None:
    shaped = shape(value, budget, Place(ID))
    assert fits(exact_json.encode(shaped.value).decode(), budget)
    assert reached(value, shaped.value, Place(ID), list(shaped.cuts), budget) == value


@pytest.mark.parametrize(
    "value",
    [
        "word " * 100_000,
        [{"id": number, "name": f"row {number}"} for number in range(20_000)],
        {f"key{number}": "x" * 50 for number in range(5_000)},
        {"text": "y" * 100_000, "rows": list(range(50_000)), "small": 1},
        [["z" * 10_000] * 3] * 3,
    ],
    ids=["text", "rows", "keys", "mixed", "nested"],
)
# acceptance 6
def test_a_long_value_fits_its_budget_and_says_where_the_rest_is(value: Any) -> None:
    shaped = shape(value, 8_000, Place(ID))
    text = exact_json.encode(shaped.value).decode()
    assert estimate(text) <= 8_000
    assert len(text) > 8_000
    assert shaped.cuts
    assert all(cut.ref in text for cut in shaped.cuts)


def test_small_fields_survive_beside_a_long_one() -> None:
    shaped = shape({"body": "long " * 10_000, "title": "Login broken", "id": 7}, 500, Place(ID))
    assert shaped.value["title"] == "Login broken"
    assert shaped.value["id"] == 7
    assert [cut.path for cut in shaped.cuts] == [("body",)]


def test_what_fits_is_not_touched() -> None:
    value = {"a": [1, "two", None]}
    assert shape(value, 100, Place(ID)) == Shaped(value)


# acceptance 25
def test_large_integers_are_shown_as_text() -> None:
    assert readable({"id": 1917043659912705296, "n": [2**53 - 1, -(2**53)]}) == {
        "id": "1917043659912705296",
        "n": [9007199254740991, "-9007199254740992"],
    }
    assert readable(True) is True


@pytest.mark.parametrize(
    ("value", "text"),
    [("Login broken", "Login broken"), ("5", '"5"'), ("null", '"null"'), ("", '""'), ([1], "[1]"), (None, "null")],
)
def test_a_value_is_written_as_short_as_it_stays_clear(value: Any, text: str) -> None:
    assert text_of(value) == text

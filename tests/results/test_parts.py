from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.answers.parts import part
from delta_protocol.errors import NotFound


def test_a_path_leads_into_objects_and_arrays() -> None:
    value = {"rows": [{"name": "a"}, {"name": "b"}], "1": "one"}
    assert part(value, ("rows", 1, "name")) == "b"
    assert part(value, ("rows", -1, "name")) == "b"
    assert part(value, ("rows",), 0, 1) == [{"name": "a"}]
    assert part(value, (1,)) == "one"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("row",), "it has rows"),
        (("rows", 2), "array of 2 items"),
        (("rows", "name"), "array of 2 items"),
        (("rows", 0, "x"), "nothing below"),
    ],
)
def test_a_wrong_path_says_what_is_there(path: tuple[str | int, ...], words: str) -> None:
    with pytest.raises(NotFound, match=words):
        part({"rows": [1, 2]}, path)


def test_numbers_have_no_slices() -> None:
    with pytest.raises(NotFound, match="slices"):
        part({"a": 1}, ("a",), 0, 1)


@given(st.text() | st.lists(st.integers()), st.integers(1, 7))
def test_slices_one_after_another_give_everything_back(value: Any, step: int) -> None:
    pieces = [part(value, (), at, at + step) for at in range(0, len(value), step)]
    assert [item for piece in pieces for item in piece] == list(value)

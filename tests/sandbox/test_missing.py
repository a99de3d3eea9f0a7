"""Where a name that is not there was read, although the engine tells the place of the last call only."""

from __future__ import annotations

import pytest

from delta_actors.sandbox.missing import located

SOURCE = """const a = {};
console.log("x");
const b = 1;
const c = a.b.c;
return nothere + tickets.serch("c");"""


@pytest.mark.parametrize(
    ("name", "message", "place"),
    [
        ("TypeError", "cannot read property 'c' of undefined", (4, 15)),
        ("ReferenceError", "nothere is not defined; connectors: tickets", (5, 8)),
        ("ReferenceError", "'nothere' is not defined", (5, 8)),
        ("NotFound", "tickets has no 'serch'; nearest: search", (5, 26)),
        ("TypeError", "cannot read property 'elsewhere' of null", (2, 9)),
        ("TypeError", "not a function", (2, 9)),
        ("Error", "nothere is not defined", (2, 9)),
    ],
)
def test_the_first_mention_after_the_last_call_is_the_place(name: str, message: str, place: tuple[int, int]) -> None:
    assert located(SOURCE, name, message, 2, 9) == place


def test_a_name_before_the_last_call_is_the_place_only_where_it_stands_once() -> None:
    loop = "for (const n of [1, 2]) {\n  use(x.gone);\n  call();\n}"
    assert located(loop, "TypeError", "cannot read property 'gone' of undefined", 3, 3) == (2, 9)
    twice = loop.replace("use(", "use(y.gone, ")
    assert located(twice, "TypeError", "cannot read property 'gone' of undefined", 3, 3) == (3, 3)


def test_an_error_without_a_place_stays_without() -> None:
    assert located(SOURCE, "TypeError", "cannot read property 'c' of undefined", 0, 0) == (0, 0)

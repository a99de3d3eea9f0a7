"""Words, singulars, identifiers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.catalogue import names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_ticket", ("get", "ticket")),
        ("get-ticket", ("get", "ticket")),
        ("getTicket", ("get", "ticket")),
        ("tickets.get", ("tickets", "get")),
        ("getHTTPResponse", ("get", "http", "response")),
        ("API-post-page", ("api", "post", "page")),
    ],
)
def test_words_of_every_spelling(name: str, words: tuple[str, ...]) -> None:
    assert names.words(name) == words


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("tickets", "ticket"), ("entities", "entity"), ("boxes", "box"), ("branches", "branch"), ("people", "person")],
)
def test_plurals(plural: str, singular: str) -> None:
    assert names.singular(plural) == singular


@pytest.mark.parametrize("word", ["status", "address", "news", "is", "analysis", "bus"])
def test_words_that_only_look_like_plurals(word: str) -> None:
    assert names.singular(word) == word


def test_clashes_are_numbered_and_a_plain_identifier_keeps_itself() -> None:  # acceptance 22
    found = names.aliases(["a-b", "a_b", "a.b", "delete", "3d", "then"])
    assert found == {"a_b": "a_b", "a-b": "a_b_2", "a.b": "a_b_3", "delete": "delete_", "3d": "_3d", "then": "then_"}


def test_a_tool_that_comes_later_renames_nobody() -> None:
    first = names.aliases(["a-b"])
    assert names.aliases(["a_b", "a-b"], first) == {"a-b": "a_b", "a_b": "a_b_2"}


@given(st.lists(st.text(min_size=1)))
def test_identifiers_are_always_valid_and_unique(given_names: list[str]) -> None:
    found = names.aliases(given_names)
    assert set(found) == set(given_names)
    assert len(set(found.values())) == len(found)
    assert all(alias.replace("$", "_").isidentifier() and alias.isascii() for alias in found.values())
    assert not names.RESERVED & set(found.values())


def test_a_connector_never_hides_what_programs_have() -> None:
    assert names.connector_alias("console") == "console_"
    assert names.namespaces(["a-b", "a_b"]) == {"a-b": "a_b", "a_b": "a_b_2"}

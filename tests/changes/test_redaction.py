"""Secrets in the text of a program that handed in no plan (acceptance 76)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.changes.redaction import Redactor, secrets_in_code


@pytest.mark.parametrize(
    ("code", "secrets"),
    [
        ('f({password: "one two"})', ["one two"]),
        ("t.api_key = 'k-1'; const clientSecret=`s\n2`", ["k-1", "s\n2"]),
        ('({"access-token" : "a\\"b"})', ['a\\"b']),
        ('({page_token: "x", tokens: "y", title: "password: z"})', []),
        ('password: "open', []),
        ("password", []),
    ],
)
def test_literals_under_a_secrets_name_are_found_in_code(code: str, secrets: list[str]) -> None:
    assert list(secrets_in_code(code)) == secrets


@given(st.text(alphabet="""password:= "'`\\a1""", max_size=200))
def test_no_text_is_too_much_for_it(code: str) -> None:
    known = [each for each in secrets_in_code(code) if len(each) >= 6]
    clean = Redactor(known).text(code)
    assert all(each not in clean for each in known)


def test_a_program_of_quotes_takes_no_time() -> None:
    assert list(secrets_in_code("password=\"'`\\" * 50_000)) is not None
    assert list(secrets_in_code("a" * 300_000)) == []

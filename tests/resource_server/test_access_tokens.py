"""The checks of tokens as functions of their claims: CS-06 05 to 16, acceptance 67."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.errors import Overloaded
from delta_protocol.mcp.access_tokens import (
    ALGORITHMS,
    InvalidToken,
    Jwt,
    TokenRules,
    check_claims,
    check_introspection,
    parse_jwt,
    principal_of,
    read_introspection,
)
from delta_protocol.mcp.jwt_keys import BadKeySet, KeySet, check_signature

HERE = "https://h.example/mcp"
ISSUER = "https://as.example"
RULES = TokenRules(HERE, (ISSUER,))
NOW = 1_000_000.0
GOOD: dict[str, Any] = {"iss": ISSUER, "aud": HERE, "exp": NOW + 60, "sub": "ada", "scope": "read write"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CLAIMS = st.dictionaries(
    st.sampled_from(["iss", "aud", "exp", "nbf", "sub", "scope", "scp", "client_id", "azp", "active"]) | st.text(), JSON
)


def reason(claims: dict[str, Any], rules: TokenRules = RULES) -> str:
    with pytest.raises(InvalidToken) as raised:
        check_claims(claims, rules, NOW)
    assert raised.value.detail == {"error": "invalid_token", "reason": raised.value.reason}
    return raised.value.reason


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


def test_good_claims_say_who_it_is() -> None:
    """CS-06-08, CS-06-09."""
    identity = check_claims({**GOOD, "client_id": "cli"}, RULES, NOW)
    assert (identity.subject, identity.scopes, identity.client_id) == ("ada", ("read", "write"), "cli")
    assert (identity.issuer, identity.expires) == (ISSUER, NOW + 60)
    assert check_claims({**GOOD, "aud": ["x", HERE]}, RULES, NOW).subject == "ada"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (without("iss"), "invalid_issuer"),
        ({**GOOD, "iss": ISSUER + "/"}, "invalid_issuer"),
        ({**GOOD, "iss": [ISSUER]}, "invalid_issuer"),
        (without("exp"), "missing_expiry"),
        ({**GOOD, "exp": "tomorrow"}, "missing_expiry"),
        ({**GOOD, "exp": True}, "missing_expiry"),
        ({**GOOD, "exp": 10**400}, "missing_expiry"),
        ({**GOOD, "exp": NOW - 31}, "expired"),
        ({**GOOD, "exp": -1}, "expired"),
        ({**GOOD, "nbf": NOW + 31}, "not_yet_valid"),
        ({**GOOD, "nbf": "soon"}, "not_yet_valid"),
        (without("aud"), "invalid_audience"),
        ({**GOOD, "aud": HERE + "/"}, "invalid_audience"),
        ({**GOOD, "aud": HERE.upper()}, "invalid_audience"),
        ({**GOOD, "aud": [[HERE]]}, "invalid_audience"),
        ({**GOOD, "aud": {HERE: 1}}, "invalid_audience"),
        ({**GOOD, "aud": []}, "invalid_audience"),
    ],
)
def test_every_fault_has_its_reason(claims: dict[str, Any], expected: str) -> None:
    assert reason(claims) == expected


def test_clocks_may_differ_by_the_leeway() -> None:
    assert check_claims({**GOOD, "exp": NOW - 29, "nbf": NOW + 29}, RULES, NOW).subject == "ada"
    assert reason({**GOOD, "exp": NOW}, TokenRules(HERE, (ISSUER,), leeway=0)) == "expired"


def test_a_missing_expiry_is_allowed_on_request_alone() -> None:
    """CS-06-11, CS-06-12."""
    lax = TokenRules(HERE, (ISSUER,), require_expiry=False)
    assert check_claims(without("exp"), lax, NOW).expires is None
    assert reason({**GOOD, "exp": "tomorrow"}, lax) == "missing_expiry"
    assert reason({**GOOD, "exp": NOW - 31}, lax) == "expired"


@pytest.mark.parametrize("scope", [["read", 1, "write"], " read  write read ", None, 7, {"read": 1}])
def test_scopes_of_any_shape_grant_what_they_name(scope: Any) -> None:
    granted = check_claims({**GOOD, "scope": scope}, RULES, NOW).scopes
    assert granted == (("read", "write") if isinstance(scope, str | list) else ())


def test_rules_under_which_anything_would_pass_cannot_be_made() -> None:
    for arguments in (("", (ISSUER,)), (HERE, ()), (HERE, ("",))):
        with pytest.raises(ValueError):
            TokenRules(*arguments)
    for algorithms in ((), ("none",), ("HS256",), ("RS256", "HS512"), ("RS999",)):
        with pytest.raises(ValueError):
            TokenRules(HERE, (ISSUER,), algorithms)
    for leeway in (-1.0, float("inf"), float("nan"), 601.0):
        with pytest.raises(ValueError):
            TokenRules(HERE, (ISSUER,), leeway=leeway)


def test_the_introspection_answer_wins() -> None:
    """CS-06 13 to 15, W21: what the issuer says now, over what the token says."""
    said: dict[str, Any] = {
        "active": True,
        "aud": HERE,
        "exp": NOW + 60,
        "sub": "real",
        "scope": "read",
        "client_id": "cli",
    }
    identity = check_introspection(said, RULES, ISSUER, NOW, {**GOOD, "sub": "admin", "scp": ["all"]})
    assert (identity.subject, identity.scopes, identity.client_id) == ("real", ("read",), "cli")
    # What the answer leaves out comes from verified claims, and from nowhere else.
    assert check_introspection({"active": True}, RULES, ISSUER, NOW, GOOD).subject == "ada"
    refused: list[tuple[dict[str, Any], str]] = [
        ({"active": True}, "missing_expiry"),
        ({"active": True, "exp": NOW + 60}, "invalid_audience"),
        ({**said, "aud": "https://other"}, "invalid_audience"),
        ({**said, "exp": NOW - 60}, "expired"),
        ({**said, "iss": "https://other"}, "invalid_issuer"),
        ({**said, "active": "true"}, "introspection_failed"),
        ({"active": False}, "introspection_failed"),
        ({}, "introspection_failed"),
    ]
    for answer, expected in refused:
        with pytest.raises(InvalidToken) as raised:
            check_introspection(answer, RULES, ISSUER, NOW)
        assert raised.value.reason == expected
    with pytest.raises(InvalidToken):
        check_introspection({"active": True, "aud": "https://other"}, RULES, ISSUER, NOW, GOOD)
    for text in (b"", b"null", b"[]", b"<html>", b"\xff", b"[" * 100_000):
        with pytest.raises(Overloaded):
            read_introspection(text)


def test_principals_are_as_different_as_those_they_stand_for() -> None:
    base = check_claims(GOOD, RULES, NOW)
    ids = {
        principal_of(identity, token).id
        for identity, token in [
            (base, "t"),
            (check_claims({**GOOD, "sub": "bob"}, RULES, NOW), "t"),
            (check_claims({**without("sub"), "client_id": "ada"}, RULES, NOW), "t"),
            (check_claims(without("sub"), RULES, NOW), "t"),
            (check_claims(without("sub"), RULES, NOW), "u"),
            (check_claims({**GOOD, "sub": "a" * 300}, RULES, NOW), "t"),
            (check_claims({**GOOD, "iss": ISSUER + "/2"}, TokenRules(HERE, (ISSUER + "/2",)), NOW), "t"),
        ]
    }
    assert len(ids) == 7
    shown = principal_of(base, "t")
    assert (shown.kind, shown.subject, shown.issuer, shown.scopes) == ("oauth", "ada", ISSUER, ("read", "write"))
    assert shown.id == f"oauth:{ISSUER}#ada"


def encoded(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": ["RS256"]},
        {"alg": None},
        {},
        {"alg": "RS256", "crit": ["exp"]},
        {"alg": "RS256", "b64": False},
        {"alg": "RS256", "typ": "dpop+jwt"},
        {"alg": "RS256", "typ": "JWE"},
        {"alg": "RS256", "typ": 7},
    ],
)
def test_a_header_that_is_not_of_an_access_token_is_refused(header: dict[str, Any]) -> None:
    token = parse_jwt(f"{encoded(header)}.{encoded(GOOD)}.")
    assert token is not None
    with pytest.raises(InvalidToken, match="invalid_signature"):
        token.algorithm(ALGORITHMS)


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt", "AT+JWT"])
def test_the_types_of_access_tokens_are_taken(kind: str) -> None:
    """RFC 9068 4."""
    token = parse_jwt(f"{encoded({'alg': 'ES256', 'typ': kind})}.{encoded(GOOD)}.x")
    assert token is not None
    assert token.algorithm(ALGORITHMS) == "ES256"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "opaque",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        f"{encoded({'alg': 'RS256'})}.{encoded(b'null')}.x",
        f"{encoded({'alg': 'RS256'})}.{encoded(b'[]')}.x",
        f"{encoded({'alg': 'RS256'})}.{encoded(b'{' * 9000)}.x",
        f"{encoded(b'x' * 9000)}.{encoded({})}.x",
    ],
)
def test_what_is_no_jwt_is_opaque(token: str) -> None:
    assert parse_jwt(token) is None


@given(st.text() | st.lists(st.binary().map(lambda data: encoded(data)), min_size=3, max_size=3).map(".".join))
def test_no_token_breaks_the_parser(token: str) -> None:
    parse_jwt(token)


@given(CLAIMS, CLAIMS, CLAIMS)
def test_no_claims_break_the_checks(header: dict[str, Any], claims: dict[str, Any], answer: dict[str, Any]) -> None:
    token = Jwt("a.b.c", header, claims)
    for check in (
        lambda: check_claims({**GOOD, **claims}, RULES, NOW),
        lambda: check_claims(claims, RULES, NOW),
        lambda: check_introspection({"active": True, **answer}, RULES, ISSUER, NOW, claims),
        lambda: token.algorithm(ALGORITHMS),
        lambda: check_signature(token, "RS256", KeySet([claims, answer]).may_sign(token, "RS256")),
    ):
        with suppress(InvalidToken):
            check()


@given(st.binary() | JSON.map(lambda value: json.dumps({"keys": value}).encode()))
def test_no_document_breaks_the_reader_of_keys(text: bytes) -> None:
    try:
        KeySet.read(text)
    except BadKeySet:
        pass


@given(
    st.lists(
        st.fixed_dictionaries(
            {"kty": st.sampled_from(["RSA", "EC", "OKP", "oct", 7])},
            optional=dict.fromkeys(("n", "e", "x", "y", "crv", "k", "alg", "use", "key_ops", "kid", "d"), JSON),
        ),
        max_size=3,
    ),
    st.sampled_from(ALGORITHMS),
)
def test_no_key_breaks_the_check_of_a_signature(keys: list[dict[str, Any]], algorithm: str) -> None:
    token = parse_jwt(f"{encoded({'alg': algorithm})}.{encoded(GOOD)}.AAAA")
    assert token is not None
    with pytest.raises(InvalidToken):
        check_signature(token, algorithm, KeySet(keys).may_sign(token, algorithm))

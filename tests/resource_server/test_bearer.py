"""What a protected server reads and says: credentials, challenges, its metadata and its places (RFC 6750, RFC 9728)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.errors import Invalid
from delta_protocol.mcp.bearer import (
    WELL_KNOWN,
    bearer_token,
    challenge,
    describe,
    missing_scopes,
    prm_document,
    shown_scopes,
)
from delta_protocol.mcp.oauth import challenge as client_side
from delta_protocol.mcp.oauth import urls
from delta_protocol.mcp.oauth.metadata import read_protected_resource

ISSUER = "https://as.example"


@pytest.mark.parametrize(
    ("values", "token"),
    [
        ([], None),
        (["Bearer abc"], "abc"),
        (["bearer abc"], "abc"),
        (["BEARER   abc  "], "abc"),
        (["Bearer"], None),
        (["Bearer   "], None),
        (["Basic abc"], None),
        (["DPoP abc"], None),
        (["Bearerabc"], None),
    ],
)
def test_the_scheme_has_no_case_and_other_credentials_are_none(values: list[str], token: str | None) -> None:
    assert bearer_token(values) == token


@pytest.mark.parametrize("values", [["Bearer a", "Bearer a"], ["Bearer a b"], ["Bearer a\x7f"], ["Bearer \xe9"]])
def test_malformed_credentials_are_called_malformed(values: list[str]) -> None:
    with pytest.raises(Invalid):
        bearer_token(values)


@given(st.lists(st.text() | st.text().map(lambda text: "Bearer " + text), max_size=3))
def test_no_header_breaks_the_reader(values: list[str]) -> None:
    try:
        token = bearer_token(values)
    except Invalid:
        return
    assert token is None or (token.isascii() and " " not in token)


def test_a_challenge_says_what_is_needed_and_why() -> None:
    """CS-06-03, CS-06-04."""
    assert challenge("here") == 'Bearer realm="here"'
    said = challenge(
        "here",
        resource_metadata="https://h/.well-known/oauth-protected-resource",
        scopes=("a", "offline_access", "b", "a"),
        error="invalid_token",
        description="expired: get a new one",
    )
    assert said == (
        'Bearer realm="here", resource_metadata="https://h/.well-known/oauth-protected-resource", '
        'error="invalid_token", error_description="expired: get a new one", scope="a b"'
    )


@given(st.text(), st.text(), st.text(), st.lists(st.text()))
def test_no_text_breaks_out_of_a_challenge(realm: str, error: str, description: str, scopes: list[str]) -> None:
    header = challenge(realm, error=error, description=description, scopes=scopes)
    header.encode("ascii")
    assert header.isprintable()
    (parsed,) = client_side.parse(header.removesuffix(" ")) or (client_side.Challenge("bearer"),)
    assert parsed.scheme == "bearer"
    assert set(parsed.parameters) <= {"realm", "error", "error_description", "scope"}
    assert parsed.scopes == shown_scopes(scopes)


def test_the_document_has_what_a_client_needs() -> None:
    """CS-06-01, CS-06-02."""
    assert json.loads(prm_document("https://h/mcp", [ISSUER])) == {
        "resource": "https://h/mcp",
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
    }
    full = json.loads(
        prm_document(
            "https://h/mcp",
            [ISSUER],
            scopes_supported=("read", "offline_access"),
            name="H",
            documentation="https://h/docs",
            signing_algorithms=("ES256",),
        )
    )
    assert full["scopes_supported"] == ["read"]
    assert full["resource_documentation"] == "https://h/docs"
    assert full["resource_signing_alg_values_supported"] == ["ES256"]
    assert full["resource_name"] == "H"


SHAPES = [
    ("https://h.example", ""),
    ("https://h.example/", ""),
    ("https://h.example/mcp", "/mcp"),
    ("https://h.example/mcp/", "/mcp"),
    ("https://h.example:8443/mcp", "/mcp"),
    ("https://h.example/a/b/mcp", "/a/b/mcp"),
    ("https://h.example/mcp?tenant=1", "/mcp"),
    ("http://127.0.0.1:8420/mcp", "/mcp"),
    ("http://[::1]:8420/mcp", "/mcp"),
    ("https://H.Example/mcp", "/mcp"),
]


# acceptance 65
@pytest.mark.parametrize(("resource", "inserted"), SHAPES)
def test_the_metadata_is_where_clients_look_and_names_the_configured_url(resource: str, inserted: str) -> None:
    said = describe(resource, [ISSUER])
    places = {WELL_KNOWN, f"{WELL_KNOWN}/", WELL_KNOWN + inserted, f"{WELL_KNOWN}{inserted}/", f"{WELL_KNOWN}/mcp"}
    for place in places:
        document = said.document_at(place, "/mcp")
        assert document is not None, place
        assert json.loads(document)["resource"] == resource
        assert read_protected_resource(document, resource).authorization_servers == (ISSUER,)
    assert said.metadata_url in urls.resource_urls(resource)
    assert said.metadata_url.partition("?")[0].endswith(WELL_KNOWN + inserted)
    for elsewhere in ("/mcp", f"{WELL_KNOWN}/other", f"{WELL_KNOWN}x", f"/x{WELL_KNOWN}", "/", ""):
        assert said.document_at(elsewhere, "/mcp") is None
    assert said.hosts == (urls.canonical_resource(resource).split("/")[2],)


@pytest.mark.parametrize(
    "resource",
    [
        "",
        "h.example",
        "http://h.example/mcp",
        "ftp://h",
        "https://h/#x",
        "https://u:p@h/",
        "https://h h/",
        "https://h:x/",
    ],
)
def test_a_url_that_must_not_be_public_is_refused(resource: str) -> None:
    with pytest.raises(ValueError):
        describe(resource, [ISSUER])


def test_issuers_and_scopes_must_be_well_formed() -> None:
    for issuers in ([], ["http://as.example"], ["https://as.example?x=1"]):
        with pytest.raises(ValueError):
            describe("https://h/mcp", issuers)
    for scope in ("", "a b", 'a"', "a\\", "é"):
        with pytest.raises(ValueError):
            describe("https://h/mcp", [ISSUER], scopes=[scope])


def test_a_scope_may_include_others_and_circles_end() -> None:
    """Spec 1.16: scope hierarchies."""
    implied = {"admin": ["write"], "write": ["read"], "x": ["y"], "y": ["x"]}
    assert missing_scopes(["admin"], ["read", "write"], implied) == ()
    assert missing_scopes(["read"], ["write", "read", "write"], implied) == ("write",)
    assert missing_scopes(["x"], ["y", "z"], implied) == ("z",)
    assert missing_scopes([], ["read"]) == ("read",)
    said = describe("https://h/mcp", [ISSUER], scopes=["read"], implied=implied)
    assert said.missing(["write"], ["admin"]) == ("admin",)
    assert 'scope="read admin"' in said.challenge("insufficient_scope", scopes=["admin", "read"])

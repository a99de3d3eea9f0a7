"""What is sent to an authorisation server and read from it, as pure functions."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.mcp.oauth import authorize, challenge, metadata, registration, scopes, tokens
from delta_protocol.mcp.oauth.assertion import client_assertion
from delta_protocol.mcp.oauth.authorize import Pending
from delta_protocol.mcp.oauth.challenge import Challenge
from delta_protocol.mcp.oauth.errors import (
    ConfigurationNeeded,
    MetadataRefused,
    OAuthError,
    ResponseRefused,
    TokenRefused,
)
from delta_protocol.mcp.oauth.metadata import AuthorizationServer
from delta_protocol.mcp.oauth.registration import Given
from delta_protocol.mcp.oauth.tokens import Client, Method, Tokens

ISSUER = "https://as.test"
SERVER = AuthorizationServer(
    ISSUER,
    f"{ISSUER}/token",
    authorization_endpoint=f"{ISSUER}/authorize?ui=1",
    registration_endpoint=f"{ISSUER}/register",
    code_challenge_methods_supported=("plain", "S256"),
)
PENDING = Pending(
    "the-state", "v" * 43, ISSUER, True, "me", "http://127.0.0.1:7/callback", "https://a.test/mcp", ("read", "write")
)


@pytest.mark.parametrize(
    ("header", "scheme_and_parameters"),
    [
        ("Bearer", [("bearer", {})]),
        ('Bearer scope="a b", error=invalid_token', [("bearer", {"scope": "a b", "error": "invalid_token"})]),
        ('bearer Realm = "x\\"y" ,scope=""', [("bearer", {"realm": 'x"y', "scope": ""})]),
        ("Negotiate abc==, Basic realm=x", [("negotiate", {}), ("basic", {"realm": "x"})]),
        (
            'Basic realm="a, Bearer b=c", Bearer error="e"',
            [("basic", {"realm": "a, Bearer b=c"}), ("bearer", {"error": "e"})],
        ),
        ("Bearer a=1, a=2", [("bearer", {"a": "1"})]),
        ('Bearer a="unclosed', [("bearer", {})]),
        (",, ,Bearer", [("bearer", {})]),
        ("", []),
        ("=", []),
    ],
)
def test_challenges_are_told_apart(header: str, scheme_and_parameters: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, dict(each.parameters)) for each in challenge.parse(header)] == scheme_and_parameters


@given(st.text(alphabet='Bearsic,="\\ \tx/-', max_size=80) | st.text(max_size=80))
def test_any_header_is_read_to_an_end(header: str) -> None:
    assert isinstance(challenge.bearer([header]), Challenge)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"])),
        max_size=4,
    )
)
def test_quoted_parameters_come_back(parameters: dict[str, str]) -> None:
    quoted = ", ".join(
        name + '="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in parameters.items()
    )
    assert dict(challenge.bearer(["Basic x=y", f"Bearer {quoted}"]).parameters) == parameters


def document(**changes: Any) -> bytes:
    known = {"resource": "https://a.test/mcp", "authorization_servers": [ISSUER], "other": 1}
    return json.dumps({**known, **changes}).encode()


def test_resource_metadata_is_read() -> None:
    read = metadata.read_protected_resource(document(scopes_supported=["read"]), "https://a.test/mcp")
    assert (read.resource, read.authorization_servers, read.scopes_supported) == (
        "https://a.test/mcp",
        (ISSUER,),
        ("read",),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": "https://evil.test/mcp"},
        {"resource": 5},
        {"authorization_servers": []},
        {"authorization_servers": None},
        {"authorization_servers": ["http://169.254.169.254/"]},
        {"authorization_servers": ["https://as.test?x=1"]},
    ],
)
def test_resource_metadata_that_leads_astray_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MetadataRefused):
        metadata.read_protected_resource(document(**changes), "https://a.test/mcp")


def server_document(**changes: Any) -> bytes:
    known = {"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token", "authorization_endpoint": f"{ISSUER}/authorize"}
    return json.dumps({**known, "code_challenge_methods_supported": ["S256"], **changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": f"{ISSUER}/"},
        {"issuer": "https://AS.test"},
        {"issuer": "https://evil.test"},
        {"token_endpoint": "http://as.test/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"registration_endpoint": "file:///x"},
        {"token_endpoint": None},
    ],
)
def test_server_metadata_that_leads_astray_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MetadataRefused):
        metadata.read_authorization_server(server_document(**changes), ISSUER)


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
def test_a_server_without_s256_is_refused(methods: list[str] | None) -> None:
    server = metadata.read_authorization_server(server_document(code_challenge_methods_supported=methods), ISSUER)
    with pytest.raises(MetadataRefused, match="S256"):
        metadata.check_code_flow(server)


@given(
    st.binary(max_size=100)
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_no_document_is_more_than_refused(text: bytes) -> None:
    for read in (metadata.read_protected_resource, metadata.read_authorization_server):
        with pytest.raises(MetadataRefused):
            read(text, ISSUER)
    with pytest.raises(TokenRefused):
        tokens.read_tokens(200, text, 0.0)
    with pytest.raises(TokenRefused):
        registration.read_registration(201, text, SERVER, "http://127.0.0.1/")


def test_the_challenge_is_that_of_rfc_7636() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert authorize.challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_the_authorisation_url_says_all_and_keeps_the_endpoints_query() -> None:
    parts = urlsplit(authorize.authorization_url(f"{ISSUER}/authorize?ui=1", PENDING))
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{ISSUER}/authorize"
    assert {name: values[0] for name, values in parse_qs(parts.query).items()} == {
        "ui": "1",
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": PENDING.redirect_uri,
        "state": "the-state",
        "code_challenge": authorize.challenge_of(PENDING.verifier),
        "code_challenge_method": "S256",
        "resource": "https://a.test/mcp",
        "scope": "read write",
    }


def test_the_code_of_a_true_response_is_taken() -> None:
    assert authorize.read_response(f"code=c%2F1&state=the-state&iss={ISSUER}", PENDING) == "c/1"


# RFC 9207 2.4 and 4
@pytest.mark.parametrize(
    ("query", "sends_issuer"),
    [
        ("code=c&state=the-state", True),
        ("code=c&state=the-state&iss=https://evil.test", True),
        ("code=c&state=the-state&iss=https://evil.test", False),
        (f"code=c&state=the-state&iss={ISSUER}/", True),
        ("code=c&state=the-state&iss=HTTPS://as.test", True),
        ("code=c&state=the-state&iss=", False),
        (f"code=c&state=other&iss={ISSUER}", True),
        (f"code=c&iss={ISSUER}", True),
        (f"state=the-state&iss={ISSUER}", True),
        (f"code=c&code=d&state=the-state&iss={ISSUER}", True),
    ],
)
def test_a_response_that_is_not_ours_is_refused(query: str, sends_issuer: bool) -> None:
    pending = Pending("the-state", "v" * 43, ISSUER, sends_issuer, "me", "http://127.0.0.1:7/", "https://a.test", ())
    with pytest.raises(ResponseRefused):
        authorize.read_response(query, pending)


def test_an_error_is_shown_only_if_it_comes_from_the_issuer() -> None:
    error = "error=access_denied&error_description=no%0Away&state=the-state&iss="
    with pytest.raises(ResponseRefused, match="access_denied: no way"):
        authorize.read_response(error + ISSUER, PENDING)
    with pytest.raises(ResponseRefused) as refused:
        authorize.read_response(error + "https://evil.test", PENDING)
    assert "denied" not in refused.value.message
    assert "evil" not in refused.value.message


@given(st.text(max_size=80))
def test_no_response_is_taken_without_our_state(query: str) -> None:
    with pytest.raises(ResponseRefused):
        authorize.read_response(query, PENDING)


@pytest.mark.parametrize(
    ("configured", "challenged", "supported", "offered", "chosen"),
    [
        ((), ("a",), ("a", "b"), None, ("a",)),
        ((), (), ("a", "b"), None, ("a", "b")),
        ((), (), None, None, ()),
        ((), (), None, ("offline_access",), ()),
        ((), ("a",), None, ("a", "offline_access"), ("a", "offline_access")),
        ((), ("a",), None, ("a",), ("a",)),
        (("c",), ("a",), ("b",), None, ("c", "a")),
    ],
)
def test_scopes_are_chosen_in_order(
    configured: Any, challenged: Any, supported: Any, offered: Any, chosen: Any
) -> None:
    assert scopes.choose(configured, challenged, supported, offered) == chosen


def test_a_client_says_who_it_is_as_the_method_asks() -> None:
    form = {"grant_type": "refresh_token"}
    client = Client("me/1", "client_secret_basic", "s:e cret")
    sent, headers = tokens.authenticated(form, client, None)
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"me%2F1:s%3Ae+cret"
    assert sent == form
    sent, headers = tokens.authenticated(form, Client("me", "client_secret_post", "x"), None)
    assert (sent, headers) == ({**form, "client_id": "me", "client_secret": "x"}, {})
    assert tokens.authenticated(form, Client("me"), None) == ({**form, "client_id": "me"}, {})
    sent, _ = tokens.authenticated(form, Client("me", "private_key_jwt"), "signed")
    assert sent["client_assertion"] == "signed"
    methods: tuple[Method, ...] = ("client_secret_basic", "client_secret_post", "private_key_jwt")
    for method in methods:
        with pytest.raises(ConfigurationNeeded):
            tokens.authenticated(form, Client("me", method), None)


def test_an_assertion_is_for_the_issuer_alone() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    signed = client_assertion("me", ISSUER, pem, "ES256", 1e9, "unique")
    options = {"verify_exp": False, "verify_iat": False}
    claims = jwt.decode(signed, key.public_key(), ["ES256"], options=options, audience=ISSUER)  # type: ignore[arg-type]
    assert claims == {"iss": "me", "sub": "me", "aud": ISSUER, "iat": 10**9, "exp": 10**9 + 300, "jti": "unique"}
    for bad_key, algorithm in (("no key", "ES256"), (pem, "RS256"), (pem, "none"), (pem, "HS256")):
        with pytest.raises(ConfigurationNeeded):
            client_assertion("me", ISSUER, bad_key, algorithm, 1e9, "unique")


def answer(**members: Any) -> bytes:
    return json.dumps({"access_token": "t", "token_type": "Bearer", **members}).encode()


def test_tokens_are_refreshed_a_minute_before_their_end_or_at_half_their_life() -> None:
    hour = tokens.read_tokens(200, answer(expires_in=3600), 1000.0)
    assert not hour.is_due(1000 + 3539)
    assert hour.is_due(1000 + 3541)
    assert not hour.is_over(1000 + 3599)
    assert hour.is_over(1000 + 3600)
    short = tokens.read_tokens(200, answer(expires_in="2"), 1000.0)
    assert not short.is_due(1000.9)
    assert short.is_due(1001.0)


# acceptance 63
@pytest.mark.parametrize("lifetime", [{}, {"expires_in": None}, {"expires_in": 0}, {"expires_in": "inf"}])
def test_a_token_of_unknown_life_is_never_due(lifetime: dict[str, Any]) -> None:
    assert not tokens.read_tokens(200, answer(**lifetime), 1000.0).is_due(1e12)


def test_a_refresh_token_stays_until_another_comes() -> None:
    before = Tokens("old", "kept", scope=("a",))
    assert tokens.read_tokens(200, answer(), 0.0, before).refresh_token == "kept"
    assert tokens.read_tokens(200, answer(refresh_token="next"), 0.0, before).refresh_token == "next"
    assert tokens.read_tokens(200, answer(scope="b c"), 0.0, before).scope == ("b", "c")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, answer(token_type="DPoP")),
        (200, answer(access_token="t\r\nx: y")),
        (200, answer(access_token="")),
        (302, answer()),
        (400, b'{"error":"invalid_grant","error_description":"gone"}'),
        (404, b"<html>"),
    ],
)
def test_what_is_no_bearer_token_is_refused(status: int, text: bytes) -> None:
    with pytest.raises(TokenRefused) as refused:
        tokens.read_tokens(status, text, 0.0)
    assert (refused.value.error == "invalid_grant") is (status == 400)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_has_refused_nothing(status: int) -> None:
    with pytest.raises(OAuthError, match="cannot answer now") as error:
        tokens.read_tokens(status, b'{"error":"invalid_grant"}', 0.0)
    assert not isinstance(error.value, TokenRefused)


def test_tokens_and_secrets_do_not_show() -> None:
    shown = repr((Tokens("sesame", "sesame"), Client("me", "client_secret_post", "sesame"), Given("me", "sesame")))
    assert "sesame" not in shown


def test_the_order_of_registration() -> None:
    url = "https://me.test/client.json"
    with_documents = AuthorizationServer(ISSUER, f"{ISSUER}/token", client_id_metadata_document_supported=True)
    given_all = Given("me", "secret", metadata_url=url)
    assert registration.known_client(given_all, with_documents) == Client("me", "client_secret_basic", "secret")
    assert registration.known_client(Given(metadata_url=url), with_documents) == Client(url)
    assert registration.known_client(Given(metadata_url=url), SERVER) is None
    with pytest.raises(ConfigurationNeeded, match="`client_metadata_url`"):
        registration.known_client(Given(), with_documents)
    with pytest.raises(ConfigurationNeeded, match="`client_id`"):
        registration.known_client(Given(), AuthorizationServer(ISSUER, f"{ISSUER}/token"))
    for bad in ("http://me.test/c.json", "https://me.test/", "https://me.test", "https://u@me.test/c"):
        with pytest.raises(ConfigurationNeeded):
            registration.known_client(Given(metadata_url=bad), with_documents)


@pytest.mark.parametrize(
    ("supported", "secret", "key", "method"),
    [
        (None, True, False, "client_secret_basic"),
        (("client_secret_post",), True, False, "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), True, False, "client_secret_basic"),
        (("none",), False, False, "none"),
        (("private_key_jwt",), False, True, "private_key_jwt"),
    ],
)
def test_the_method_follows_what_we_have(supported: Any, secret: bool, key: bool, method: str) -> None:
    assert tokens.choose_method(supported, secret=secret, key=key) == method


def test_a_registration_asks_for_what_the_server_offers_and_takes_what_it_gives() -> None:
    body = json.loads(registration.registration_request(SERVER, "http://127.0.0.1:7/callback", ("a", "b"), "native"))
    assert body == {
        "client_name": "delta-supervisor",
        "redirect_uris": ["http://127.0.0.1:7/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "application_type": "native",
        "scope": "a b",
    }
    given_secret = b'{"client_id":"c","client_secret":"s","client_secret_expires_at":0}'
    client = registration.read_registration(201, given_secret, SERVER, "http://127.0.0.1:7/callback")
    assert client == Client("c", "client_secret_basic", "s", None, ("http://127.0.0.1:7/callback",), registered=True)
    assert registration.read_registration(201, b'{"client_id":"c"}', SERVER, "x").method == "none"
    with pytest.raises(OAuthError, match="invalid_redirect_uri"):
        registration.read_registration(400, b'{"error":"invalid_redirect_uri"}', SERVER, "x")


def test_the_forms_name_their_resource() -> None:
    for form in (
        tokens.code_form("c", PENDING),
        tokens.refresh_form("r", "https://a.test/mcp"),
        tokens.client_credentials_form("https://a.test/mcp", ("a",)),
    ):
        assert form["resource"] == "https://a.test/mcp"
    assert tokens.code_form("c", PENDING)["code_verifier"] == PENDING.verifier
    assert dict(parse_qsl("scope=a"))["scope"] == tokens.client_credentials_form("r", ("a",))["scope"]

"""CS-06: tokens for a protected resource; the functions of this library's API."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import trio

from conformance.framework.checks import refusal
from conformance.framework.target import Target
from delta_actors.mcp import Introspection, ResourceSettings, TokenVerifier, TrustedIssuer
from delta_protocol.mcp.access_tokens import Identity, InvalidToken, TokenRules, check_claims, check_introspection
from delta_protocol.mcp.bearer import challenge, prm_document

_RESOURCE = "https://notes.example.com/mcp"
_ISSUER = "https://login.example.com"
_RULES = TokenRules(_RESOURCE, (_ISSUER,), leeway=0.0)
_NOW = 1_000_000.0
_GOOD: dict[str, Any] = {"iss": _ISSUER, "aud": _RESOURCE, "exp": _NOW + 60, "sub": "ada", "scope": "read write"}
_PLACE = f"{_RESOURCE}/.well-known"


def cs_06_01_metadata_has_its_members(target: Target) -> None:
    """The metadata has `resource`, `authorization_servers`, and the header as the only way for tokens."""
    target.need_api()
    assert json.loads(prm_document(_RESOURCE, [_ISSUER])) == {
        "resource": _RESOURCE,
        "authorization_servers": [_ISSUER],
        "bearer_methods_supported": ["header"],
    }


def cs_06_02_metadata_has_what_else_is_known(target: Target) -> None:
    """Signing algorithms, documentation and scopes are in it where they are known."""
    target.need_api()
    document = json.loads(
        prm_document(
            _RESOURCE,
            [_ISSUER],
            scopes_supported=["read"],
            documentation="https://d.test",
            signing_algorithms=["ES256"],
        )
    )
    assert document["resource_signing_alg_values_supported"] == ["ES256"]
    assert document["resource_documentation"] == "https://d.test"
    assert document["scopes_supported"] == ["read"]


def cs_06_03_a_challenge_says_where_the_metadata_is(target: Target) -> None:
    """A challenge has a realm and `resource_metadata`."""
    target.need_api()
    said = challenge("notes", resource_metadata=_PLACE)
    assert said == f'Bearer realm="notes", resource_metadata="{_PLACE}"'


def cs_06_04_a_challenge_says_what_was_wrong(target: Target) -> None:
    """A challenge has `error` and `error_description` where they are given, and no character can leave its quotes."""
    target.need_api()
    said = challenge("notes", error="invalid_token", description='expired", scope="all\r\nX: y')
    assert 'error="invalid_token"' in said
    assert 'error_description="expired' in said
    assert said.count('"') == 6
    assert "\r" not in said
    assert "\n" not in said


def cs_06_05_a_malformed_token_is_refused(target: Target) -> None:
    """A malformed token is `invalid_signature`."""
    target.need_api()
    for token in ("junk", "a.b.c", "..", f"{_part(None)}.{_part(None)}.x", "x" * 10_000):
        assert _refused(_verify, token) == "invalid_signature", token[:40]


def cs_06_06_an_expired_token_is_refused(target: Target) -> None:
    """An expired token is `expired`, from the second that it names."""
    target.need_api()
    assert _refused(_check, exp=_NOW - 1) == _refused(_check, exp=_NOW) == "expired"


def cs_06_07_another_audience_is_refused(target: Target) -> None:
    """A token for another resource, or for none, is `invalid_audience`; one whose name only begins alike too."""
    target.need_api()
    wrong: list[object] = ["https://other.test", f"{_RESOURCE}/more", [], None, {"a": _RESOURCE}]
    for audience in wrong:
        assert _refused(_check, aud=audience) == "invalid_audience", audience


def cs_06_08_an_unverified_token_is_refused(target: Target) -> None:
    """Good claims alone let nobody in: a verifier without anything to verify with cannot be made, and a token whose
    signature nobody vouches for is refused. (The original accepts it.)"""
    target.need_api()
    refusal(lambda: TokenVerifier(ResourceSettings(_RESOURCE, [TrustedIssuer(_ISSUER)])))
    for token in (_token(), _token({"alg": "none"}), _token({"alg": "HS256"})):
        assert _refused(_verify, token) == "invalid_signature"


def cs_06_09_one_of_several_audiences_is_enough(target: Target) -> None:
    """An array of audiences with the resource among them is good."""
    target.need_api()
    identity = _check(aud=["https://other.test", _RESOURCE])
    assert (identity.subject, identity.scopes) == ("ada", ("read", "write"))


def cs_06_10_the_signature_is_asked_for(target: Target) -> None:
    """The function that checks signatures is called; its no and its exception are `invalid_signature`."""
    target.need_api()
    seen: list[str] = []
    assert _verify(_token(), good=True, seen=seen).subject == "ada"
    assert seen == [_token()]
    assert _refused(_verify, _token(), good=False) == "invalid_signature"
    assert _refused(_verify, _token(), good=None) == "invalid_signature"


def cs_06_11_a_token_without_an_end_is_refused(target: Target) -> None:
    """A token without a time of expiry, or with one that is no number, is `missing_expiry`."""
    target.need_api()
    for end in (None, "soon", True):
        assert _refused(_check, exp=end) == "missing_expiry", end


def cs_06_12_unless_that_is_allowed(target: Target) -> None:
    """With `require_expiry=False` it is good, but an expired one still is not."""
    target.need_api()
    rules = TokenRules(_RESOURCE, (_ISSUER,), leeway=0.0, require_expiry=False)
    claims = {name: value for name, value in _GOOD.items() if name != "exp"}
    assert check_claims(claims, rules, _NOW).expires is None
    assert _refused(check_claims, {**_GOOD, "exp": _NOW - 1}, rules, _NOW) == "expired"


def cs_06_13_an_opaque_token_is_asked_about(target: Target) -> None:
    """An opaque token that its issuer says is active is good, with the subject and the scopes that the issuer says."""
    target.need_api()
    with _authority(
        {"active": True, "aud": _RESOURCE, "exp": time.time() + 60, "sub": "ada", "scope": "read"}
    ) as place:
        identity = _introspected(place)
    assert (identity.subject, identity.scopes) == ("ada", ("read",))


def cs_06_14_an_inactive_token_is_refused(target: Target) -> None:
    """One that is not active is `introspection_failed`; only the value true is a yes."""
    target.need_api()
    for active in (False, "true", 1):
        with _authority({"active": active, "aud": _RESOURCE, "exp": time.time() + 60}) as place:
            assert _refused(_introspected, place) == "introspection_failed", active


def cs_06_15_its_audience_counts_too(target: Target) -> None:
    """One for another audience is `invalid_audience`, and so is one of which the issuer names none."""
    target.need_api()
    for audience in ("https://other.test", None):
        answer = {**_GOOD, "active": True, "aud": audience}
        assert _refused(check_introspection, answer, _RULES, _ISSUER, _NOW) == "invalid_audience"


def cs_06_16_nobody_to_ask_is_a_refusal(target: Target) -> None:
    """An opaque token where nobody can be asked is `invalid_signature`."""
    target.need_api()
    assert _refused(_verify, "opaque-token", good=True) == "invalid_signature"


def _check(**changes: object) -> Identity:
    claims = {name: value for name, value in {**_GOOD, **changes}.items() if value is not None}
    return check_claims(claims, _RULES, _NOW)


def _refused(check: Callable[..., object], *arguments: object, **more: object) -> str:
    """Return the reason of a refusal; fails where there is none."""
    try:
        check(*arguments, **more)
    except InvalidToken as error:
        return error.reason
    raise AssertionError("it was accepted")


def _verify(token: str, *, good: bool | None = False, seen: list[str] | None = None) -> Identity:
    async def hook(text: str) -> bool:
        await trio.lowlevel.checkpoint()
        if seen is not None:
            seen.append(text)
        if good is None:
            raise ValueError("the library says no")
        return good

    verifier = TokenVerifier(ResourceSettings(_RESOURCE, [TrustedIssuer(_ISSUER, verify_signature=hook)]))

    async def verify() -> Identity:
        return (await verifier.verify(token)).identity

    return trio.run(verify)


def _introspected(place: str) -> Identity:
    trusted = TrustedIssuer(_ISSUER, introspection=Introspection(place, "notes", "secret"))

    async def verify() -> Identity:
        return (await TokenVerifier(ResourceSettings(_RESOURCE, [trusted])).verify("opaque-token")).identity

    return trio.run(verify)


def _token(header: dict[str, Any] | None = None) -> str:
    return f"{_part(header or {'alg': 'ES256'})}.{_part({**_GOOD, 'exp': 2**40})}.c2ln"


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@contextmanager
def _authority(answer: dict[str, Any]) -> Generator[str, None, None]:
    """Answer every introspection of the token alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            body = json.dumps(answer if form["token"] == ["opaque-token"] else {"active": False}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/introspect"
        finally:
            server.shutdown()
            thread.join()

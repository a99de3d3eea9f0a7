"""CS-09: OAuth over HTTP, with an authorisation server of the suite's own."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from conformance.framework.checks import refusal
from conformance.framework.target import Target
from conformance.framework.wire import INFO, LEGACY, request
from delta_actors.mcp import ResourceSettings, TrustedIssuer, oauth_access

_RESOURCE = "https://notes.example.com/mcp"
_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_BEGIN = request(0, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}, "legacy")


def cs_09_00_nothing_to_verify_with_is_refused(target: Target) -> None:
    """A configuration with neither a way to verify signatures nor introspection is refused; the message names both."""
    target.need_api()
    settings = ResourceSettings(_RESOURCE, [TrustedIssuer("https://login.example.com")])
    said = refusal(lambda: oauth_access(settings))
    assert "jwks_url" in said
    assert "introspection" in said


def cs_09_01_without_a_token_a_challenge_says_where_to_get_one(target: Target) -> None:
    """Without a token it is 401 with a challenge, whose `resource_metadata` has the well-known part before the path
    (RFC 9728 3.1)."""
    with _protected(target) as (url, _):
        response = _post(url)
    assert response.status_code == 401
    said = response.headers["www-authenticate"]
    assert said.startswith("Bearer ")
    assert f'resource_metadata="https://notes.example.com{_WELL_KNOWN}/mcp"' in said
    assert "error=" not in said


def cs_09_02_the_metadata_is_served(target: Target) -> None:
    """The metadata is served as JSON, at the root and where the challenge says."""
    with _protected(target) as (url, issuer):
        for place in (_WELL_KNOWN, f"{_WELL_KNOWN}/mcp"):
            response = httpx.get(f"{_root(url)}{place}", trust_env=False)
            assert response.status_code == 200, place
            assert response.headers["content-type"].startswith("application/json")
            document = response.json()
            assert (document["resource"], document["authorization_servers"]) == (_RESOURCE, [issuer.url])


def cs_09_03_a_good_token_is_let_in(target: Target) -> None:
    """A good token is let in; the scheme's case does not matter."""
    with _protected(target) as (url, issuer):
        assert _post(url, f"Bearer {issuer.token()}").status_code == 200
        assert _post(url, f"bearer {issuer.token()}").status_code == 200


def cs_09_04_another_audience_is_not(target: Target) -> None:
    """A token for another resource is 401 `invalid_token`."""
    with _protected(target) as (url, issuer):
        response = _post(url, f"Bearer {issuer.token(aud='https://other.test')}")
        assert _code(response) == (401, "invalid_token")
        forged = jwt.encode(issuer.claims(), ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "k1"})
        assert _code(_post(url, f"Bearer {forged}")) == (401, "invalid_token")


def cs_09_05_an_expired_token_is_not(target: Target) -> None:
    """An expired token is 401 `invalid_token`, and the description says so."""
    with _protected(target) as (url, issuer):
        response = _post(url, f"Bearer {issuer.token(exp=int(time.time()) - 3600)}")
        assert _code(response) == (401, "invalid_token")
        assert "expired" in response.headers["www-authenticate"]


def cs_09_08_the_metadata_is_for_every_origin(target: Target) -> None:
    """The metadata can be read from any origin, and its preflight answered; the endpoint cannot."""
    origin = {"Origin": "https://elsewhere.test"}
    with _protected(target) as (url, _):
        for method in ("GET", "OPTIONS"):
            response = httpx.request(method, f"{_root(url)}{_WELL_KNOWN}", headers=origin, trust_env=False)
            assert response.status_code < 300, (method, response.status_code)
            assert response.headers["access-control-allow-origin"] == "*"
        assert _post(url, **origin).status_code == 403


class _Issuer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.key = ec.generate_private_key(ec.SECP256R1())

    @property
    def keys(self) -> bytes:
        numbers = self.key.public_key().public_numbers()
        point = {"x": _number(numbers.x), "y": _number(numbers.y)}
        return json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k1", "alg": "ES256", **point}]}).encode()

    def claims(self, **changes: object) -> dict[str, Any]:
        good = {"iss": self.url, "aud": _RESOURCE, "exp": int(time.time()) + 600, "sub": "ada", "scope": "read"}
        return {**good, **changes}

    def token(self, **changes: object) -> str:
        return jwt.encode(self.claims(**changes), self.key, "ES256", {"kid": "k1"})


def _number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(32, "big")).rstrip(b"=").decode()


@contextmanager
def _protected(target: Target) -> Generator[tuple[str, _Issuer], None, None]:
    with _issuing() as issuer:
        options = ("--issuer", issuer.url, "--jwks", f"{issuer.url}/keys", "--resource", _RESOURCE)
        with target.served(*options) as url:
            yield url, issuer


@contextmanager
def _issuing() -> Generator[_Issuer, None, None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(issuer.keys)))
            self.end_headers()
            self.wfile.write(issuer.keys)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = _Issuer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def _post(url: str, authorization: str = "", **headers: str) -> httpx.Response:
    told = {"Accept": "application/json, text/event-stream", **headers}
    if authorization:
        told["Authorization"] = authorization
    return httpx.post(url, json=_BEGIN, headers=told, trust_env=False)


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _code(response: httpx.Response) -> tuple[int, str]:
    said = response.headers.get("www-authenticate", "")
    return response.status_code, said.partition('error="')[2].partition('"')[0]

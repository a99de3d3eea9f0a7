"""A protected `DeltaServer` over real sockets, with a real authorisation server: CS-09, acceptance 65, 67 and 78."""

from __future__ import annotations

import logging
import runpy
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec

from delta_actors.mcp import (
    Access,
    DeltaServer,
    HttpSettings,
    Introspection,
    KeyTimes,
    RequestContext,
    ResourceSettings,
    ServerSettings,
    TrustedIssuer,
    bearer_access,
    oauth_access,
    open_access,
    serve_http,
    token_hash,
)
from delta_protocol.errors import Overloaded, Refused
from delta_protocol.mcp.oauth import challenge as client_side
from delta_protocol.wire.message import Principal
from tests.mcp.samples import Log, modern, request, sample_server
from tests.mcp.web import KEY, routing, site
from tests.resource_server.authority import Authority, authority, jwk, part, pem, rsa_key

HERE = "https://h.example/mcp"
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "protected_server.py"
METADATA = "/.well-known/oauth-protected-resource"
LIST = modern(1, "tools/list")
WHO = modern(1, "tools/call", name="who", arguments={})


def protected(issuer: Authority, **changes: Any) -> Access:
    trusted = TrustedIssuer(issuer.url, issuer.jwks_url)
    return oauth_access(ResourceSettings(HERE, [trusted], **{"scopes": ("read",), "realm": "there", **changes}))


def scoped_server(**settings: Any) -> DeltaServer:
    server = DeltaServer("scoped", "1", settings=ServerSettings(**settings))

    @server.tool()
    async def who(context: RequestContext) -> dict[str, Any]:
        principal = context.principal
        return {
            "subject": principal.subject,
            "client": principal.client_id,
            "issuer": principal.issuer,
            "scopes": list(principal.scopes),
        }

    @server.tool(scopes=("write", "notes"))
    async def change() -> str:
        return "changed"

    return server


def impatient(issuer: Authority, **changes: Any) -> Access:
    return protected(issuer, keys=KeyTimes(retry=0.0), **changes)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def challenge_of(answer: httpx.Response) -> client_side.Challenge:
    return client_side.bearer(answer.headers.get_list("www-authenticate"))


async def test_without_a_token_the_client_is_led_to_one() -> None:
    """CS-09-01, CS-09-02, spec 1.16."""
    async with authority() as issuer, site(scoped_server(), authenticate=protected(issuer)) as web:
        for headers in ({}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer"}):
            answer = await web.modern(LIST, headers)
            assert answer.status_code == 401
            said = challenge_of(answer)
            assert said.parameters["realm"] == "there"
            assert said.resource_metadata == f"https://h.example{METADATA}/mcp"
            assert (said.scopes, said.error) == (("read",), "")
            assert answer.json()["error"]["message"]
        for path in (METADATA, f"{METADATA}/mcp"):
            document = (await web.http.get(f"http://127.0.0.1:{web.port}{path}")).json()
            assert document == {
                "resource": HERE,
                "authorization_servers": [issuer.url],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["read"],
            }


async def test_the_metadata_can_be_read_from_any_page_and_is_all_that_can() -> None:
    """CS-09-08, acceptance 65."""
    async with authority() as issuer, site(scoped_server(), authenticate=protected(issuer)) as web:
        base = f"http://127.0.0.1:{web.port}"
        foreign = {"origin": "https://inspector.example", "host": "elsewhere.example"}
        for method, status in (("GET", 200), ("HEAD", 200), ("OPTIONS", 204)):
            answer = await web.http.request(method, f"{base}{METADATA}/mcp", headers=foreign)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, "*")
            assert bool(answer.content) == (method == "GET")
        assert (await web.http.get(f"{base}{METADATA}/other")).status_code == 404
        assert (await web.http.post(f"{base}{METADATA}", json={})).status_code == 404
        assert (await web.modern(LIST, foreign)).status_code == 403
        # The public name is served without being configured twice.
        assert (await web.modern(LIST, {"host": "h.example"})).status_code == 401
    async with site(scoped_server()) as web:
        assert (await web.http.get(f"http://127.0.0.1:{web.port}{METADATA}")).status_code == 404


async def test_a_good_token_is_served_and_the_handler_knows_whose_it_is() -> None:
    """CS-09-03."""
    async with authority() as issuer, site(scoped_server(), authenticate=protected(issuer)) as web:
        token = issuer.token(HERE, client_id="cli", scope="read other")
        for scheme in ("Bearer", "bearer", "BEARER"):
            answer = await web.modern(WHO, {"authorization": f"{scheme} {token}"})
            assert answer.json()["result"]["structuredContent"] == {
                "subject": "ada",
                "client": "cli",
                "issuer": issuer.url,
                "scopes": ["read", "other"],
            }


def forged(issuer: Authority, other: Authority) -> dict[str, tuple[str, str]]:
    """Tokens that must not be taken, with the reasons."""
    good = issuer.token(HERE)
    header, payload, signature = good.split(".")
    claims = issuer.claims(HERE)
    stranger = ec.generate_private_key(ec.SECP256R1())
    secret = pem(issuer.key)
    # pyjwt itself refuses to sign with a public key, so the attacker's signature is made as an attacker would.
    confused = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(claims)}"
    hmac = part(jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(confused.encode(), secret))
    now = int(time.time())
    return {
        "alg none": (f"{part({'alg': 'none'})}.{payload}.", "invalid_signature"),
        "alg None in capitals": (f"{part({'alg': 'nOnE'})}.{payload}.{signature}", "invalid_signature"),
        "public key as secret": (f"{confused}.{hmac}", "invalid_signature"),
        "no signature": (f"{header}.{payload}.", "invalid_signature"),
        "changed claims": (f"{header}.{part({**claims, 'sub': 'root'})}.{signature}", "invalid_signature"),
        "another signature": (f"{header}.{payload}.{other.token(HERE).split('.')[2]}", "invalid_signature"),
        "stranger's key": (issuer.token(HERE, key=stranger), "invalid_signature"),
        "unknown key": (issuer.token(HERE, kid="k9"), "invalid_signature"),
        "key of its own": (
            issuer.sign(claims, {"kid": "k1", "jwk": jwk(stranger)}, stranger),
            "invalid_signature",
        ),
        "keys elsewhere": (issuer.sign(claims, {"kid": "k1", "jku": other.jwks_url}, other.key), "invalid_signature"),
        "encryption key": (issuer.sign(claims, {"kid": "enc"}, rsa_key()), "invalid_signature"),
        "unknown extension": (
            f"{part({'alg': 'ES256', 'kid': 'k1', 'crit': ['x'], 'x': 1})}.{payload}.{signature}",
            "invalid_signature",
        ),
        "another kind of token": (issuer.sign(claims, {"kid": "k1", "typ": "dpop+jwt"}), "invalid_signature"),
        "other issuer": (other.token(HERE), "invalid_issuer"),
        "other issuer's name": (issuer.token(HERE, iss=issuer.url + "/"), "invalid_issuer"),
        "no issuer": (issuer.token(HERE, iss=None), "invalid_issuer"),
        "other audience": (issuer.token("https://h.example/other"), "invalid_audience"),
        "audiences without ours": (issuer.token(HERE, aud=["a", HERE + "/"]), "invalid_audience"),
        "no audience": (issuer.token(HERE, aud=None), "invalid_audience"),
        "expired": (issuer.token(HERE, exp=now - 60), "expired"),
        "no expiry": (issuer.token(HERE, exp=None), "missing_expiry"),
        "expiry in words": (issuer.token(HERE, exp="never"), "missing_expiry"),
        "not yet": (issuer.token(HERE, nbf=now + 600), "not_yet_valid"),
        "claims null": (issuer.sign(None, {"kid": "k1"}), "invalid_signature"),
        "claims a list": (issuer.sign([claims], {"kid": "k1"}), "invalid_signature"),
        "opaque": ("opaque", "invalid_signature"),
        "too long": ("a" * 9000, "invalid_signature"),
        "three dots": ("..", "invalid_signature"),
    }


# acceptance 67
async def test_forged_tokens_are_refused_with_their_reasons() -> None:
    """CS-09-04, CS-09-05."""
    async with authority() as issuer, authority() as other:
        issuer.keys.append(jwk(rsa_key(), "enc", use="enc"))
        async with site(scoped_server(), authenticate=protected(issuer)) as web:
            for name, (token, reason) in forged(issuer, other).items():
                answer = await web.modern(LIST, bearer(token))
                said = challenge_of(answer)
                assert (answer.status_code, said.error) == (401, "invalid_token"), name
                assert said.parameters["error_description"].startswith(f"{reason}:"), name
                assert said.resource_metadata == f"https://h.example{METADATA}/mcp"
                assert said.scopes == ("read",)
            assert (await web.modern(LIST, bearer(issuer.token(HERE)))).status_code == 200
        assert other.requests == []


async def test_the_example_keeps_the_notes_of_each_person() -> None:
    example = runpy.run_path(str(EXAMPLE))
    async with authority() as issuer:
        trusted = TrustedIssuer(issuer.url, issuer.jwks_url)
        access = oauth_access(ResourceSettings(example["PUBLIC_URL"], [trusted], scopes=("notes:read",)))
        async with site(example["server"], authenticate=access) as web:
            scopes = "notes:read notes:write"
            ada, bob = (issuer.token(example["PUBLIC_URL"], sub=name, scope=scopes) for name in ("ada", "bob"))
            add = modern(1, "tools/call", name="add_note", arguments={"text": "tea"})
            read = modern(2, "tools/call", name="read_notes", arguments={})
            assert "noted for ada" in (await web.modern(add, bearer(ada))).text
            assert "tea" in (await web.modern(read, bearer(ada))).text
            assert "tea" not in (await web.modern(read, bearer(bob))).text
            small = issuer.token(example["PUBLIC_URL"], scope="notes:read")
            assert (await web.modern(add, bearer(small))).status_code == 403


# acceptance 76
async def test_no_token_and_no_secret_is_written_or_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with authority() as issuer:
        asked = Introspection(issuer.introspection_url, "rs", "planted-secret", cache=0.0)
        trusted = TrustedIssuer(issuer.url, introspection=asked)
        access = oauth_access(ResourceSettings(HERE, [trusted]))
        assert "planted-secret" not in repr(asked) + repr(trusted)
        tokens = ["planted-opaque", issuer.token(HERE, sub="planted-subject"), issuer.token(HERE, iss="https://other")]
        async with site(scoped_server(), authenticate=access) as web:
            answers = [await web.modern(LIST, bearer(token)) for token in tokens]
            issuer.answer = (401, b"planted-answer")
            answers += [await web.modern(LIST, bearer(token)) for token in tokens]
            issuer.answer = (200, b"planted-answer")
            answers += [await web.modern(LIST, bearer(token)) for token in tokens]
    written = caplog.text + "".join(answer.text + str(answer.headers) for answer in answers)
    assert [answer.status_code for answer in answers] == [401, 401, 401, 503, 503, 401, 503, 503, 401]
    for secret in ("planted", *tokens, "cnM6cGxhbnRlZC1zZWNyZXQ"):
        assert secret not in written


async def test_malformed_credentials_are_a_bad_request() -> None:
    async with authority() as issuer, site(scoped_server(), authenticate=protected(issuer)) as web:
        answer = await web.modern(LIST, bearer("a b"))
        assert (answer.status_code, challenge_of(answer).error) == (400, "invalid_request")
        headers = [("content-type", "application/json"), ("authorization", "Bearer a"), ("authorization", "Bearer b")]
        answer = await web.http.post(web.url, json=LIST, headers=headers)
        assert (answer.status_code, challenge_of(answer).error) == (400, "invalid_request")


async def test_what_is_not_granted_is_named_whole_for_the_server_and_for_the_tool() -> None:
    """Spec 1.16: step-up with all the scopes of the operation."""
    change = modern(7, "tools/call", name="change", arguments={})
    async with authority() as issuer:
        access = protected(issuer, implied_scopes={"all": ["read", "write", "notes"]})
        async with site(scoped_server(), authenticate=access) as web:
            answer = await web.modern(LIST, bearer(issuer.token(HERE, scope="other")))
            said = challenge_of(answer)
            assert (answer.status_code, said.error, said.scopes) == (403, "insufficient_scope", ("read",))
            assert said.resource_metadata is not None
            for scope in ("read", "read write"):
                answer = await web.modern(change, bearer(issuer.token(HERE, scope=scope)))
                said = challenge_of(answer)
                assert (answer.status_code, said.error) == (403, "insufficient_scope")
                assert said.scopes == ("read", "write", "notes")
                assert answer.json()["id"] == 7
            for scope in ("read write notes", "all"):
                answer = await web.modern(change, bearer(issuer.token(HERE, scope=scope)))
                assert answer.json()["result"]["content"][0]["text"] == "changed"
            web.http.headers["authorization"] = f"Bearer {issuer.token(HERE)}"
            session = await web.begin()
            answer = await web.post(request(8, "tools/call", name="change", arguments={}), session)
            assert (answer.status_code, answer.json()["id"]) == (403, 8)
            assert challenge_of(answer).scopes == ("read", "write", "notes")
            assert (await web.post(request(9, "tools/call", name="who", arguments={}), session)).status_code == 200


async def test_a_session_and_a_question_belong_to_whoever_began_them() -> None:
    """CS-13, spec 3.7: bound to the subject of the issuer, whatever token it comes with."""
    call: dict[str, Any] = {"name": "greet", "arguments": {}}
    async with authority() as issuer, site(sample_server(Log()), authenticate=protected(issuer)) as web:
        ada, again, bob = (issuer.token(HERE, sub=name, jti=jti) for name, jti in (("ada", 1), ("ada", 2), ("bob", 3)))
        web.http.headers["authorization"] = f"Bearer {ada}"
        session = await web.begin()
        asked = (await web.modern(modern(1, "tools/call", **call))).json()["result"]
        (question,) = asked["inputRequests"]
        call |= {
            "inputResponses": {question: {"action": "accept", "content": {"name": "Ann"}}},
            "requestState": asked["requestState"],
        }
        stolen = await web.post(request(2, "ping"), session | bearer(bob))
        assert stolen.status_code == 404
        stolen = await web.modern(modern(2, "tools/call", **call), bearer(bob))
        assert stolen.json()["error"]["code"] == -32602
        assert (await web.http.delete(web.url, headers=session | bearer(bob))).status_code == 404
        assert (await web.http.get(web.url, headers=session | bearer(bob))).status_code == 404
        assert (await web.post(request(3, "ping"), session | bearer(again))).status_code == 200
        assert "result" in (await web.modern(modern(3, "tools/call", **call), bearer(again))).json()


async def test_a_token_that_ends_ends_its_session_too() -> None:
    async with authority() as issuer:
        asked = Introspection(issuer.introspection_url, cache=0.0)
        access = oauth_access(ResourceSettings(HERE, [TrustedIssuer(issuer.url, introspection=asked)]))
        good = {"active": True, "aud": HERE, "exp": time.time() + 300, "sub": "ada"}
        async with site(scoped_server(), authenticate=access) as web:
            web.http.headers["authorization"] = "Bearer opaque"
            issuer.tokens["opaque"] = good
            session = await web.begin()
            for changes, reason in (
                ({"exp": time.time() - 60}, "expired"),
                ({"active": False}, "introspection_failed"),
            ):
                issuer.tokens["opaque"] = {**good, **changes}
                answer = await web.post(request(2, "ping"), session)
                assert challenge_of(answer).parameters["error_description"].startswith(f"{reason}:")
            issuer.tokens["opaque"] = good
            assert (await web.post(request(2, "ping"), session)).status_code == 200


async def test_a_stream_ends_soon_after_its_token() -> None:
    good = {"token"}
    turned_away: list[str] = []

    async def verify(token: str) -> Principal:
        if "busy" in good:
            turned_away.append(token)
            raise Overloaded("later")
        if token not in good:
            raise Refused("revoked")
        return Principal(token, "token")

    async with site(scoped_server(), authenticate=bearer_access(verify=verify), recheck=0.05) as web:
        web.http.headers["authorization"] = "Bearer token"
        session = await web.begin()
        listen = modern(1, "subscriptions/listen", notifications={"toolsListChanged": True})
        sse = {"accept": "application/json, text/event-stream"}
        with trio.fail_after(30):
            async with (
                web.http.stream("GET", web.url, headers=session | {"accept": "text/event-stream"}) as legacy,
                web.http.stream("POST", web.url, json=listen, headers=routing(listen) | sse) as current,
            ):
                assert (legacy.status_code, current.status_code) == (200, 200)
                # Who cannot be asked now has not said no.
                good.add("busy")
                while len(turned_away) < 4:
                    await trio.sleep(0.01)
                good.clear()
                await legacy.aread()
                await current.aread()
            assert '"result"' in current.text
        assert (await web.post(request(2, "ping"), session)).status_code == 401


async def test_keys_change_while_the_server_runs() -> None:
    async with authority() as issuer, site(scoped_server(), authenticate=impatient(issuer)) as web:
        token = issuer.token(HERE)
        issuer.answer = (500, b"")
        assert (await web.modern(LIST, bearer(token))).status_code == 503
        issuer.answer = None
        assert (await web.modern(LIST, bearer(token))).status_code == 200


async def test_a_server_that_cannot_be_asked_makes_the_client_try_again() -> None:
    async with authority() as issuer:
        token = issuer.token(HERE)
        trusted = TrustedIssuer(issuer.url, introspection=Introspection(issuer.introspection_url))
        asking = oauth_access(ResourceSettings(HERE, [trusted]))
    for access in (protected(issuer), asking):
        async with site(scoped_server(), authenticate=access) as web:
            answer = await web.modern(LIST, bearer(token))
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["error"]["code"] == 42901
            assert "www-authenticate" not in answer.headers


async def test_a_slow_server_is_waited_for_within_the_requests_deadline() -> None:
    async with authority() as issuer:
        issuer.open = trio.Event()
        access = impatient(issuer, timeout=60.0)
        async with site(scoped_server(deadline=0.3), authenticate=access) as web:
            assert (await web.modern(LIST, bearer(issuer.token(HERE)))).status_code == 504
            issuer.open.set()
            with trio.fail_after(30):
                while (await web.modern(LIST, bearer(issuer.token(HERE)))).status_code == 503:
                    await trio.sleep(0.1)


async def test_static_tokens_are_known_by_their_hashes() -> None:
    ada = Principal("token:ada", "token", ("read",))
    access = bearer_access({token_hash("s3cret"): ada}, scopes=("read",))
    async with site(scoped_server(), authenticate=access) as web:
        answer = await web.modern(LIST)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="mcp", scope="read"')
        answer = await web.modern(LIST, bearer("s3cret"))
        assert answer.status_code == 200
        assert challenge_of(await web.modern(LIST, bearer("other"))).error == "invalid_token"
        change = modern(2, "tools/call", name="change", arguments={})
        assert (await web.modern(change, bearer("s3cret"))).status_code == 403


async def test_an_own_check_may_fail_in_its_own_way() -> None:
    """W21: what a check raises is a refusal, not a fault of the server."""

    async def verify(token: str) -> Principal:
        if token == "known":
            return Principal("known", "token")
        if token == "busy":
            raise Overloaded("later")
        if token == "weak":
            raise Refused("too little", error="insufficient_scope", scopes=["more"])
        raise Refused("no") if token == "no" else KeyError(token)

    async with site(scoped_server(), authenticate=bearer_access(verify=verify)) as web:
        statuses = [(await web.modern(LIST, bearer(each))).status_code for each in ("known", "busy", "weak", "no", "x")]
        assert statuses == [200, 503, 403, 401, 401]
        assert challenge_of(await web.modern(LIST, bearer("weak"))).scopes == ("more",)


# acceptance 78
async def test_a_server_that_asks_nobody_is_served_on_this_machine_alone() -> None:
    with socket.create_server(("0.0.0.0", 0)) as reachable:
        reachable.setblocking(False)
        with pytest.raises(ValueError, match=r"0\.0\.0\.0"):
            await serve_http(scoped_server(), [reachable], HttpSettings(KEY), trio.Event())
        async with site(scoped_server(), listener=reachable, authenticate=open_access(anywhere=True)) as web:
            assert (await web.modern(LIST)).status_code == 200
        async with authority() as issuer:
            async with site(scoped_server(), listener=reachable, authenticate=protected(issuer)) as web:
                assert (await web.modern(LIST)).status_code == 401
    for peer in ("127.0.0.1", "::1", "::ffff:127.0.0.1", None):
        assert (await open_access().authenticate(None, peer)).kind == "loopback"
    for peer in ("192.0.2.1", "::ffff:192.0.2.1", "name"):
        with pytest.raises(Refused):
            await open_access().authenticate(None, peer)
    with pytest.raises(ValueError):
        bearer_access()
    with pytest.raises(ValueError):
        bearer_access({})


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("https://h.example", ""),
        ("https://h.example/", ""),
        ("https://h.example/mcp", "/mcp"),
        ("https://h.example/mcp/", "/mcp"),
        ("https://h.example:8443/mcp", "/mcp"),
        ("https://h.example/a/b/mcp", "/a/b/mcp"),
        ("https://h.example/mcp?tenant=1", "/mcp"),
        ("http://127.0.0.1:8420/mcp", "/mcp"),
        ("http://[::1]:8420/mcp", "/mcp"),
    ],
)
async def test_the_advertised_place_is_served_for_every_shape_of_url(resource: str, path: str) -> None:
    """Acceptance 65, W22."""
    access = oauth_access(ResourceSettings(resource, [TrustedIssuer("https://as.example", "https://as.example/jwks")]))
    async with site(scoped_server(), authenticate=access) as web:
        place = challenge_of(await web.modern(LIST)).resource_metadata
        assert place is not None
        local = httpx.URL(place).path
        document = (await web.http.get(f"http://127.0.0.1:{web.port}{local}")).json()
        assert (document["resource"], local) == (resource, METADATA + path)

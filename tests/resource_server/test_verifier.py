"""The verifier against a real authorisation server: keys that change, a server that is down, slow or lies."""

from __future__ import annotations

import time
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from delta_actors.mcp import Introspection, KeyTimes, ResourceSettings, TokenVerifier, TrustedIssuer
from delta_protocol.mcp.access_tokens import InvalidToken, VerificationUnavailable
from tests.resource_server.authority import Authority, authority, jwk, rsa_key

HERE = "https://h.example/mcp"


def by_keys(issuer: Authority, **changes: Any) -> TokenVerifier:
    return TokenVerifier(ResourceSettings(HERE, [TrustedIssuer(issuer.url, issuer.jwks_url)], **changes))


def by_asking(issuer: Authority, *, keys: bool = False, cache: float = 30.0, **changes: Any) -> TokenVerifier:
    asked = Introspection(issuer.introspection_url, "rs", "p:w %", cache)
    trusted = TrustedIssuer(issuer.url, issuer.jwks_url if keys else "", asked)
    return TokenVerifier(ResourceSettings(HERE, [trusted], **changes))


async def refused(verifier: TokenVerifier, token: str) -> str:
    with pytest.raises(InvalidToken) as raised:
        await verifier.verify(token)
    return raised.value.reason


async def test_a_good_token_says_who_it_is_and_keys_are_fetched_once() -> None:
    async with authority() as issuer:
        issuer.keys += [jwk(rsa_key(), "r1"), jwk(ed := ed25519.Ed25519PrivateKey.generate(), "e1")]
        verifier = by_keys(issuer)
        for token in (
            issuer.token(HERE, client_id="cli"),
            issuer.token(HERE, kid="r1", key=rsa_key()),
            issuer.token(HERE, kid="e1", key=ed),
            issuer.sign(issuer.claims(HERE), {}),
        ):
            verified = await verifier.verify(token)
            assert (verified.principal.subject, verified.principal.issuer) == ("ada", issuer.url)
        assert issuer.requests == ["/jwks"]
        assert verifier.statistics() == {"verified": 4, "refused": 0, "requests": 1}


async def test_a_new_key_is_found_and_unknown_ones_cost_one_look() -> None:
    async with authority() as issuer:
        verifier = by_keys(issuer, keys=KeyTimes(refetch=0.0))
        await verifier.verify(issuer.token(HERE))
        new = ec.generate_private_key(ec.SECP256R1())
        issuer.keys = [jwk(new, "k2")]
        assert (await verifier.verify(issuer.token(HERE, kid="k2", key=new))).principal.subject == "ada"
        assert await refused(verifier, issuer.token(HERE)) == "invalid_signature"
        patient = by_keys(issuer)
        await patient.verify(issuer.token(HERE, kid="k2", key=new))
        before = len(issuer.requests)
        for number in range(20):
            assert await refused(patient, issuer.token(HERE, kid=f"made-up-{number}")) == "invalid_signature"
        assert len(issuer.requests) == before


async def test_a_key_replaced_under_its_name_is_found_too() -> None:
    async with authority() as issuer:
        verifier = by_keys(issuer, keys=KeyTimes(refetch=0.0))
        await verifier.verify(issuer.token(HERE))
        issuer.key = ec.generate_private_key(ec.SECP256R1())
        issuer.keys = [jwk(issuer.key, "k1")]
        assert (await verifier.verify(issuer.token(HERE))).principal.subject == "ada"


async def test_known_keys_serve_while_the_issuer_is_down_but_not_for_ever() -> None:
    async with authority() as issuer:
        down = by_keys(issuer, keys=KeyTimes(fresh=0.0))
        short = by_keys(issuer, keys=KeyTimes(fresh=0.0, stale=-1.0, refetch=0.0))
        token = issuer.token(HERE)
        await down.verify(token)
        with pytest.raises(VerificationUnavailable):
            await short.verify(token)
        for answer in ((503, b""), (200, b"<html>"), (200, b"{}"), (200, b"x" * (1 << 20)), (302, b"")):
            issuer.answer = answer
            await down.verify(token)
            with pytest.raises(VerificationUnavailable):
                await by_keys(issuer).verify(token)
    await down.verify(token)
    with pytest.raises(VerificationUnavailable, match="reached"):
        await by_keys(issuer).verify(token)


async def test_no_redirect_is_followed() -> None:
    async with authority() as issuer, authority() as other:
        issuer.answer, issuer.headers = (302, b""), f"location: {other.jwks_url}\r\n"
        with pytest.raises(VerificationUnavailable, match="302"):
            await by_keys(issuer).verify(issuer.token(HERE))
        with pytest.raises(VerificationUnavailable, match="302"):
            await by_asking(issuer).verify("opaque")
        assert other.requests == []


async def test_a_crowd_shares_one_fetch_and_a_slow_issuer_delays_nobody_with_known_keys() -> None:
    async with authority() as issuer:
        verifier = by_keys(issuer, keys=KeyTimes(fresh=0.0, refetch=0.0, retry=0.0), timeout=60.0)
        token = issuer.token(HERE)
        issuer.open = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(verifier.verify, token)
            while not issuer.requests:
                await trio.sleep(0.01)
            issuer.open.set()
        issuer.open = trio.Event()
        seen = len(issuer.requests)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verifier.verify, token)
            while len(issuer.requests) == seen:
                await trio.sleep(0.01)
            await verifier.verify(token)
            issuer.open.set()


async def test_a_request_whose_time_is_up_does_not_wait_for_a_slow_issuer() -> None:
    async with authority() as issuer:
        issuer.open = trio.Event()
        with trio.move_on_after(0.1) as scope:
            await by_keys(issuer, timeout=60.0).verify(issuer.token(HERE))
        assert scope.cancelled_caught
        with pytest.raises(VerificationUnavailable, match="within"):
            await by_keys(issuer, timeout=0.1).verify(issuer.token(HERE))
        issuer.open.set()


async def test_opaque_tokens_are_what_their_issuer_says() -> None:
    """CS-06 13 to 16, W21."""
    async with authority() as issuer:
        now = time.time()
        good = {"active": True, "aud": HERE, "exp": now + 60, "sub": "bob", "scope": "read write", "client_id": "cli"}
        issuer.tokens = {
            "good": good,
            "no-audience": {**good, "aud": None},
            "other": {**good, "aud": ["https://other"]},
            "endless": {**good, "exp": None},
            "old": {**good, "exp": now - 60},
            "foreign": {**good, "iss": "https://other"},
            "odd": {**good, "active": 1},
        }
        verifier = by_asking(issuer)
        principal = (await verifier.verify("good")).principal
        assert (principal.subject, principal.scopes, principal.client_id) == ("bob", ("read", "write"), "cli")
        assert principal.issuer == issuer.url
        expected = {
            "no-audience": "invalid_audience",
            "other": "invalid_audience",
            "endless": "missing_expiry",
            "old": "expired",
            "foreign": "invalid_issuer",
            "odd": "introspection_failed",
            "unknown": "introspection_failed",
        }
        assert {token: await refused(verifier, token) for token in expected} == expected
        assert issuer.credentials[0] == "Basic cnM6cCUzQXcrJTI1"
        assert issuer.forms[0] == {"token": ["good"], "token_type_hint": ["access_token"]}
        assert await refused(by_keys(issuer), "good") == "invalid_signature"


async def test_an_answer_is_remembered_for_a_while_and_the_token_stays_bound_to_its_expiry() -> None:
    async with authority() as issuer:
        issuer.tokens["t"] = {"active": True, "aud": HERE, "exp": time.time() + 60, "sub": "bob"}
        verifier, curious = by_asking(issuer), by_asking(issuer, cache=0.0)
        for _ in range(10):
            await verifier.verify("t")
        assert len(issuer.requests) == 1
        for _ in range(3):
            await curious.verify("t")
        assert len(issuer.requests) == 4
        issuer.tokens.clear()
        assert (await verifier.verify("t")).principal.subject == "bob"
        assert await refused(curious, "t") == "introspection_failed"


async def test_the_issuers_answer_wins_over_the_token() -> None:
    """W21: the issuer is asked also about a signed token, and what it says counts."""
    async with authority() as issuer:
        token = issuer.token(HERE, sub="admin", scope="all")
        bare = issuer.token("https://other", exp=None, sub="admin")
        forged = issuer.token(HERE, key=ec.generate_private_key(ec.SECP256R1()))
        answer = {"active": True, "aud": HERE, "exp": time.time() + 60, "sub": "bob", "scope": "read"}
        issuer.tokens = {token: answer, bare: answer, forged: answer}
        for verifier in (by_asking(issuer), by_asking(issuer, keys=True)):
            principal = (await verifier.verify(token)).principal
            assert (principal.subject, principal.scopes) == ("bob", ("read",))
            assert (await verifier.verify(bare)).principal.subject == "bob"
        assert await refused(by_asking(issuer, keys=True), forged) == "invalid_signature"
        issuer.tokens[token] = {"active": True}
        # Without keys nothing of the token itself is known to be true.
        assert await refused(by_asking(issuer), token) == "missing_expiry"
        assert (await by_asking(issuer, keys=True).verify(token)).principal.subject == "admin"
        issuer.tokens.clear()
        assert await refused(by_asking(issuer, keys=True), token) == "introspection_failed"


async def test_a_foreign_token_is_shown_to_nobody() -> None:
    async with authority() as issuer:
        foreign = issuer.token(HERE, iss="https://other.example")
        for verifier in (by_keys(issuer), by_asking(issuer), by_asking(issuer, keys=True)):
            assert await refused(verifier, foreign) == "invalid_issuer"
        assert issuer.requests == []


async def test_two_issuers_verify_their_own_tokens_alone() -> None:
    async with authority() as one, authority() as two:
        trusted = [TrustedIssuer(each.url, each.jwks_url) for each in (one, two)]
        verifier = TokenVerifier(ResourceSettings(HERE, trusted))
        first, second = [(await verifier.verify(each.token(HERE))).principal.id for each in (one, two)]
        assert first != second
        assert await refused(verifier, one.token(HERE, iss=two.url)) == "invalid_signature"


async def test_an_own_check_of_the_signature_is_called_and_may_fail() -> None:
    """CS-06-10."""
    seen: list[str] = []

    async def check(token: str) -> bool:
        seen.append(token)
        if len(seen) == 2:
            raise ValueError("as libraries do")
        return len(seen) == 1

    async with authority() as issuer:
        verifier = TokenVerifier(ResourceSettings(HERE, [TrustedIssuer(issuer.url, verify_signature=check)]))
        token = issuer.token(HERE)
        assert (await verifier.verify(token)).principal.subject == "ada"
        assert [await refused(verifier, token) for _ in range(2)] == ["invalid_signature"] * 2
        assert await refused(verifier, issuer.token("https://other")) == "invalid_audience"
        assert seen == [token] * 3


async def test_another_audience_may_be_configured() -> None:
    async with authority() as issuer:
        verifier = by_keys(issuer, audience="api://delta")
        assert (await verifier.verify(issuer.token("api://delta"))).principal.subject == "ada"
        assert await refused(verifier, issuer.token(HERE)) == "invalid_audience"


GOOD = TrustedIssuer("https://as.example", "https://as.example/jwks")
ASKED = Introspection("https://as.example/introspect")


@pytest.mark.parametrize(
    "arguments",
    [
        {"issuers": []},
        {"issuers": [TrustedIssuer("https://as.example")]},
        {"issuers": [GOOD, GOOD]},
        {"issuers": [TrustedIssuer("http://as.example", "https://as.example/jwks")]},
        {"issuers": [TrustedIssuer("https://as.example", "http://as.example/jwks")]},
        {"issuers": [TrustedIssuer("https://as.example", introspection=Introspection("http://as.example"))]},
        {"issuers": [TrustedIssuer("https://as.example", introspection=Introspection(""))]},
        {"issuers": [TrustedIssuer("https://a.example", "", ASKED), TrustedIssuer("https://b.example", "", ASKED)]},
        {"resource": "http://h.example/mcp"},
        {"resource": ""},
        {"algorithms": ("HS256",)},
        {"algorithms": ("none",)},
        {"algorithms": ()},
        {"scopes": ("a b",)},
        {"leeway": -1.0},
    ],
)
def test_settings_that_leave_a_door_open_cannot_be_used(arguments: dict[str, Any]) -> None:
    """CS-09-00."""
    with pytest.raises(ValueError):
        TokenVerifier(ResourceSettings(**{"resource": HERE, "issuers": [GOOD], **arguments}))

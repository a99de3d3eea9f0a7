"""The stack with an authorisation server: auth verifies, transport remembers, clients are told where to go."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_actors.auth import AuthActor
from delta_actors.runtime import open_actors
from delta_protocol.config import AuthConfig, IntrospectionConfig, StackConfig
from delta_protocol.errors import Refused
from delta_protocol.mcp.oauth import challenge
from delta_protocol.wire.auth import AddToken, VerifyToken
from delta_protocol.wire.message import Principal, Role
from tests.gateway.house import House, open_house, tickets
from tests.resource_server.authority import Authority, authority

PUBLIC = "https://delta.example/mcp"
ACCEPT = {"accept": "application/json, text/event-stream"}


def trusting(issuer: Authority, **changes: Any) -> AuthConfig:
    settings = {"issuer": issuer.url, "jwks_url": issuer.jwks_url, "scopes": ("delta",), **changes}
    settings["implied_scopes"] = {"admin": ("delta",)}
    return AuthConfig(mode="oauth", public_url=PUBLIC, **settings)


def stack(state_dir: Path, auth: AuthConfig) -> StackConfig:
    return StackConfig(connectors={"tickets": tickets(state_dir)}, auth=auth)


def message(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def post(house: House, sent: dict[str, Any], token: str = "", **headers: str) -> httpx.Response:
    given = {**ACCEPT, **headers} | ({"authorization": f"Bearer {token}"} if token else {})
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=30) as client:
        return await client.post(house.url, json=sent, headers=given)


async def knock(house: House, token: str = "") -> httpx.Response:
    client = {"name": "t", "version": "1"}
    hello = message(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    return await post(house, hello, token)


def said(answer: httpx.Response) -> challenge.Challenge:
    return challenge.bearer(answer.headers.get_list("www-authenticate"))


# acceptance 65, 67
async def test_tokens_of_the_issuer_open_the_stack_and_others_are_told_where_to_get_one(tmp_path: Path) -> None:
    async with authority() as issuer, open_house(tmp_path, stack(tmp_path, trusting(issuer))) as house:
        answer = await knock(house)
        assert (answer.status_code, said(answer).scopes) == (401, ("delta",))
        place = said(answer).resource_metadata
        assert place == "https://delta.example/.well-known/oauth-protected-resource/mcp"
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:
            metadata = await client.get(httpx.URL(house.url).copy_with(path=httpx.URL(place).path))
        assert metadata.headers["access-control-allow-origin"] == "*"
        assert metadata.json() == {
            "resource": PUBLIC,
            "authorization_servers": [issuer.url],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["delta"],
            "resource_name": "Delta",
        }
        for token, status, error, reason in [
            (issuer.token("https://delta.example", scope="delta"), 401, "invalid_token", "invalid_audience"),
            (issuer.token(PUBLIC, exp=time.time() - 60), 401, "invalid_token", "expired"),
            (issuer.token(PUBLIC, iss="https://other"), 401, "invalid_token", "invalid_issuer"),
            (issuer.token(PUBLIC, kid="k2"), 401, "invalid_token", "invalid_signature"),
            ("delta_" + "x" * 43, 401, "invalid_token", "invalid_signature"),
            (issuer.token(PUBLIC, scope="read"), 403, "insufficient_scope", "insufficient_scope"),
        ]:
            answer = await knock(house, token)
            assert (answer.status_code, said(answer).error) == (status, error)
            assert said(answer).parameters["error_description"].startswith(reason)
        assert (await knock(house, issuer.token(PUBLIC, scope="admin"))).status_code == 200
        good = issuer.token(PUBLIC, scope="delta")
        for _ in range(5):
            assert (await knock(house, good)).status_code == 200
        assert issuer.requests == ["/jwks"]


async def test_what_a_person_does_stays_that_persons_whatever_token_it_comes_with(tmp_path: Path) -> None:
    """CS-13."""
    async with authority() as issuer, open_house(tmp_path, stack(tmp_path, trusting(issuer))) as house:
        ada, again = (issuer.token(PUBLIC, scope="delta", jti=number) for number in (1, 2))
        bob = issuer.token(PUBLIC, scope="delta", sub="bob")
        session = {"mcp-session-id": (await knock(house, ada)).headers["mcp-session-id"]}
        assert (await post(house, message(2, "tools/list"), bob, **session)).status_code == 404
        assert (await post(house, message(2, "tools/list"), again, **session)).status_code == 200
        code = 'const t = await tickets.ticket.get("T-1"); t.status = "closed"; return t.status;'
        done = await post(house, message(3, "tools/call", name="delta", arguments={"code": code}), ada, **session)
        assert "closed" in done.text, done.text
        theirs = {"mcp-session-id": (await knock(house, bob)).headers["mcp-session-id"]}
        look = message(4, "tools/call", name="delta_read", arguments={"refs": ["journal"]})
        assert "d_" in (await post(house, look, again, **session)).text
        assert "d_" not in (await post(house, look, bob, **theirs)).text


async def test_the_issuer_is_asked_once_while_its_answer_counts(tmp_path: Path) -> None:
    async with authority() as issuer:
        answer = {"active": True, "aud": PUBLIC, "exp": time.time() + 60, "sub": "ada", "scope": "delta"}
        issuer.tokens["opaque"] = answer
        asked = IntrospectionConfig(issuer.introspection_url, "delta", "s3cret")
        auth = trusting(issuer, jwks_url=None, introspection=asked)
        async with open_house(tmp_path, stack(tmp_path, auth)) as house:
            for _ in range(5):
                assert (await knock(house, "opaque")).status_code == 200
            assert issuer.requests == ["/introspect"]
            refused = await knock(house, "unknown")
            assert (refused.status_code, said(refused).parameters["error_description"].partition(":")[0]) == (
                401,
                "introspection_failed",
            )


async def test_without_the_issuer_clients_are_asked_to_come_again(tmp_path: Path) -> None:
    async with authority() as issuer, open_house(tmp_path, stack(tmp_path, trusting(issuer))) as house:
        issuer.answer = (500, b"")
        answer = await knock(house, issuer.token(PUBLIC, scope="delta"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_the_auth_actor_says_who_it_is_and_for_how_long(tmp_path: Path) -> None:
    async with authority() as issuer:
        config = StackConfig(auth=trusting(issuer))
        async with open_actors({Role.AUTH: AuthActor}, config=config, state_dir=tmp_path) as system:
            transport = system.ref(Role.AUTH, as_=Role.TRANSPORT, principal=Principal("x", "x"))
            expires = int(time.time()) + 100
            verified = await transport.ask(VerifyToken(issuer.token(PUBLIC, exp=expires, client_id="cli")))
            assert verified.expires == expires
            assert verified.principal == Principal(
                f"oauth:{issuer.url}#ada", "oauth", ("read",), "ada", "cli", issuer.url
            )
            with pytest.raises(Refused) as refused:
                await transport.ask(VerifyToken("x"))
            assert refused.value.detail == {"error": "invalid_token", "reason": "invalid_signature"}
            operator = system.ref(Role.AUTH, as_=Role.OPERATOR, principal=Principal("operator", "operator"))
            static = (await operator.ask(AddToken("ada"))).token
            with pytest.raises(Refused):
                await transport.ask(VerifyToken(static))

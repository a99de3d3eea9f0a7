"""Both halves together: our client finds its way to a token for our server, and to a larger one when it needs it."""

from __future__ import annotations

import time
from pathlib import Path

from delta_actors.mcp import (
    DeltaServer,
    HttpParameters,
    Introspection,
    OAuth,
    OAuthSettings,
    RequestContext,
    ResourceSettings,
    TrustedIssuer,
    oauth_access,
    open_http,
)
from tests.mcp.web import listening, site
from tests.oauth.world import Answer, Asked, AuthorizationServer, Browser, web


class Introspecting(AuthorizationServer):
    """One that also answers about the tokens it gave out, all for one resource."""

    resource = ""

    def handle(self, asked: Asked) -> Answer:
        if asked.path != "/introspect":
            return super().handle(asked)
        until, scope = self.access.get(asked.form["token"], (0.0, ""))
        active = until > time.time()
        said = {"aud": self.resource, "exp": until, "scope": scope, "sub": "ada", "client_id": "client-1"}
        return Answer(body={"active": active} | (said if active else {}))


async def test_a_client_signs_in_steps_up_and_signs_in_again(tmp_path: Path) -> None:
    """Spec 1.16: challenge, metadata, a token for this resource, the union of the scopes, and a revoked token."""
    server = DeltaServer("scoped", "1")

    @server.tool()
    async def look(context: RequestContext) -> str:
        return f"{context.principal.subject}: {' '.join(context.principal.scopes)}"

    @server.tool(scopes=("write", "notes"))
    async def change() -> str:
        return "changed"

    given = Introspecting()
    given.refreshing = False
    async with web(given.handle) as origin:
        given.origin = origin
        listener = listening()
        given.resource = url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        asked = Introspection(f"{origin}/introspect", cache=0.0)
        trusted = TrustedIssuer(origin, introspection=asked)
        access = oauth_access(ResourceSettings(url, [trusted], scopes=("read",)))
        async with site(server, listener=listener, authenticate=access):
            browser = Browser()
            auth = OAuth(url, OAuthSettings(tmp_path / "oauth", "here"), browser.visitor())
            async with open_http(HttpParameters(url, auth=auth)) as client:
                assert b"ada: read" in bytes((await client.call_tool("look", b"{}")).result)
                assert b"changed" in bytes((await client.call_tool("change", b"{}")).result)
                assert b"ada: read write notes" in bytes((await client.call_tool("look", b"{}")).result)
                given.revoke()
                assert b"ada: read" in bytes((await client.call_tool("look", b"{}")).result)
            sent = browser.asked()
            assert [each["scope"] for each in sent[:2]] == ["read", "read write notes"]
            assert {each["resource"] for each in sent} == {url}
            assert len(sent) == 3
        listener.close()

"""The authorisation of a Streamable HTTP client: what goes before its requests and what 401 and 403 lead to.

An `httpx.Auth`, so every request of a connection passes it: calls, notices, the listening stream, the session's end.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from urllib.parse import urlsplit

import httpx
import trio

from delta_actors.mcp.oauth_discovery import discover
from delta_actors.mcp.oauth_fetch import Fetcher, GuardedBackend
from delta_actors.mcp.oauth_flow import NONCE_WANTED, Flow
from delta_actors.mcp.oauth_keys import proof_of
from delta_actors.mcp.oauth_redirect import Visitor
from delta_actors.mcp.oauth_settings import OAuthSettings
from delta_actors.mcp.oauth_store import Grant, TokenStore
from delta_protocol.mcp.oauth import challenge as challenges
from delta_protocol.mcp.oauth import scopes, urls
from delta_protocol.mcp.oauth.challenge import Challenge
from delta_protocol.mcp.oauth.errors import OAuthError, SignInNeeded, TokenRefused

REFRESH = 60.0
"""Seconds to wait for another process that is refreshing."""
SIGN_IN = 900.0
"""Seconds to wait for another process in which a person is signing in."""
_REFUSED_BODY = 64 << 10
_STEPS = 2
"""Sign-ins for more scopes, for one request."""


class OAuth(httpx.Auth):
    """Authorises requests to one server. Share it among the sessions of a connector: they use the same token.

    Without a `visitor` nobody is sent anywhere: what needs a person raises `SignInNeeded` with the settings' hint.
    """

    def __init__(
        self,
        server: str,
        settings: OAuthSettings,
        visitor: Visitor | None = None,
        *,
        on_token: Callable[[str], None] = lambda _token: None,
    ) -> None:
        """`on_token` hears each token that is sent, so that whoever shows what the server says can leave it out."""
        self._on_token = on_token
        self._server = urls.canonical_resource(server)
        self._settings = settings
        self._visitor = visitor
        local = settings.local or urls.is_private(urlsplit(server).hostname or "")
        self._fetch = Fetcher(GuardedBackend(local=local))
        self._store = TokenStore(settings.directory)
        self._flow = Flow(self._server, settings, self._store, self._fetch)
        self._grant: Grant | None = None
        self._nonce = ""
        self._looked = False
        """Whether the store was read: again only after a refusal, since most servers ask for nothing."""
        self.sign_ins = 0
        """How often a token was got anew, by a person or for the client itself."""

    @property
    def grant(self) -> Grant | None:
        """What is used now."""
        return self._grant

    async def sign_in(self) -> Grant:
        """Get a token anew, whatever there is: for another account, or with scopes that were asked for since.

        Raises `OAuthError`; `MetadataRefused` where the server has no authorisation server.
        """
        async with self._store.lock("sign-in", self._settings.holder, self._server, SIGN_IN):
            latest = self._latest()
            self._grant = await self._obtain(None, latest.scopes if latest is not None else ())
        self.sign_ins += 1
        return self._grant

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send `request` with the token, and again after each 401 or 403 that something can be done about.

        Bounded: at most once each with a nonce, another process's token, a refreshed one and a new one, and `_STEPS`
        times with more scopes. Raises `OAuthError`.
        """
        done: list[str] = []
        token = await self._current()
        while True:
            self._sign(request, token)
            response = yield request
            self._nonce = response.headers.get("dpop-nonce", self._nonce)
            if response.status_code not in (401, 403):
                return
            challenge = challenges.bearer(response.headers.get_list("www-authenticate"))
            if response.status_code == 401 and challenge.error == NONCE_WANTED and "nonce" not in done:
                done.append("nonce")
            elif response.status_code == 401:
                token = await self._renew(token, challenge, done)
            elif challenge.error == "insufficient_scope" and token is not None:
                wider = await self._widen(token, challenge, done)
                if wider is None:
                    return
                token = wider
            else:
                return
            if not isinstance(response.stream, httpx.AsyncByteStream):
                raise OAuthError("the connection cannot be used with authorisation")
            # httpx reads the refused answer before it sends again.
            response.stream = _Dropped(response.stream)

    def _sign(self, request: httpx.Request, token: str | None) -> None:
        """Put the token on the request, with a proof of possession of its key where it has one."""
        for name in ("authorization", "dpop"):
            request.headers.pop(name, None)
        if token is None:
            return
        self._on_token(token)
        key = self._grant.key if self._grant is not None and self._grant.access_token == token else None
        request.headers["authorization"] = f"{'Bearer' if key is None else 'DPoP'} {token}"
        if key is not None:
            url = str(request.url.copy_with(query=None, fragment=None))
            request.headers["dpop"] = proof_of(key, request.method, url, token=token, nonce=self._nonce)

    async def _current(self) -> str | None:
        """Return the token to send, refreshed if it is due; None where there is none."""
        if not self._looked:
            self._looked = True
            self._grant = self._latest()
        grant = self._grant
        if grant is None or grant.tokens is None:
            return None
        now = time.time()
        renewable = grant.tokens.refresh_token is not None or self._settings.grant != "authorization_code"
        if renewable and grant.tokens.is_due(now):
            try:
                return await self._refreshed(grant.tokens.access_token)
            except OAuthError:
                if grant.tokens.is_over(now):
                    # The server's own word on it leads further: to a sign-in, or to the reason.
                    return self._grant.access_token if self._grant is not None else None
        return grant.tokens.access_token

    async def _renew(self, refused: str | None, challenge: Challenge, done: list[str]) -> str:
        """Return a token after a 401."""
        latest = self._latest()
        if latest is not None and latest.access_token not in (None, refused) and "stored" not in done:
            done.append("stored")
            self._grant = latest
            assert latest.access_token is not None
            return latest.access_token
        if refused is not None and "refresh" not in done and self._settings.grant == "authorization_code":
            done.append("refresh")
            try:
                return await self._refreshed(refused)
            except TokenRefused:
                pass
        if "new" in done:
            raise OAuthError(f"{self._server} refuses the token that was just got for it", status=401)
        done.append("new")
        return await self._new(refused, challenge, ())

    async def _widen(self, refused: str, challenge: Challenge, done: list[str]) -> str | None:
        """Return a token with the scopes that a 403 asks for; None where asking again would change nothing."""
        latest = self._latest()
        if latest is not None and latest.access_token not in (None, refused) and "stored" not in done:
            done.append("stored")
            self._grant = latest
            return latest.access_token
        grant = self._grant
        had = scopes.union(grant.scopes, (grant.tokens and grant.tokens.scope) or ()) if grant is not None else ()
        if set(challenge.scopes) <= set(had) or done.count("step") >= _STEPS:
            return None
        done.append("step")
        return await self._new(refused, challenge, had)

    async def _refreshed(self, refused: str) -> str:
        """Return a token that is not `refused`: another process's, or by the refresh token (acceptance 62)."""
        async with self._store.lock("refresh", self._settings.holder, self._server, REFRESH):
            latest = self._latest()
            if latest is None or latest.tokens is None:
                raise TokenRefused("there is no refresh token")
            if latest.tokens.access_token == refused:
                latest = await self._flow.refresh(latest)
            self._grant = latest
        assert latest.access_token is not None
        return latest.access_token

    async def _new(self, refused: str | None, challenge: Challenge, had: tuple[str, ...]) -> str:
        """Return a token by a sign-in, or by asking for the client itself; one at a time (acceptance 64)."""
        wanted = scopes.union(had, challenge.scopes)
        if self._settings.grant == "authorization_code" and self._visitor is None:
            await self._say_wanted(wanted)
        async with self._store.lock("sign-in", self._settings.holder, self._server, SIGN_IN):
            latest = self._latest()
            if latest is not None and latest.access_token not in (None, refused) and set(wanted) <= set(latest.scopes):
                self._grant = latest
                assert latest.access_token is not None
                return latest.access_token
            self._grant = await self._obtain(challenge.resource_metadata, wanted)
        self.sign_ins += 1
        assert self._grant.access_token is not None
        return self._grant.access_token

    async def _obtain(self, named: str | None, wanted: tuple[str, ...]) -> Grant:
        found = await discover(self._fetch, self._server, named, self._settings.given.issuer)
        if self._settings.grant != "authorization_code":
            return await self._flow.ask(found, wanted)
        assert self._visitor is not None, "asked for only with one"
        return await self._flow.sign_in(found, wanted, self._visitor)

    async def _say_wanted(self, wanted: tuple[str, ...]) -> None:
        latest = self._latest()
        if latest is not None:
            await self._flow.want(latest, wanted)
        lacking = wanted and latest is not None and latest.tokens is not None
        asks = f"asks for the scopes {' '.join(wanted)}" if lacking else "does not let us in without a sign-in (401)"
        raise SignInNeeded(f"{self._server} {asks}; {self._settings.hint}", status=401)

    def _latest(self) -> Grant | None:
        """Return the grant that was saved last, with tokens if any has some."""
        grants = self._flow.grants()
        return next((grant for grant in grants if grant.tokens is not None), grants[0] if grants else None)


class _Dropped(httpx.AsyncByteStream):
    """The body of a refused answer: read, so that the connection can be used again, as far as that is worth it."""

    def __init__(self, whole: httpx.AsyncByteStream) -> None:
        self._whole = whole

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        left = _REFUSED_BODY
        # Stopping by cancellation lets httpx's own generators unwind.
        with trio.CancelScope() as scope:
            async for chunk in self._whole:
                left -= len(chunk)
                if left <= 0:
                    scope.cancel()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the whole."""
        await self._whole.aclose()

"""How a token is got: a person signs in, a client asks for itself, or a refresh token is exchanged."""

from __future__ import annotations

import secrets
import time
from typing import Literal

import msgspec
import trio

from delta_actors.mcp.oauth_discovery import Found
from delta_actors.mcp.oauth_fetch import Fetcher
from delta_actors.mcp.oauth_keys import assertion_of, new_key, proof_of
from delta_actors.mcp.oauth_own import own_form
from delta_actors.mcp.oauth_redirect import Visitor
from delta_actors.mcp.oauth_settings import OAuthSettings
from delta_actors.mcp.oauth_store import Grant, TokenStore
from delta_protocol.mcp.oauth import authorize, metadata, registration, scopes, tokens
from delta_protocol.mcp.oauth.authorize import Pending
from delta_protocol.mcp.oauth.errors import ConfigurationNeeded, TokenRefused
from delta_protocol.mcp.oauth.tokens import Client, Tokens

_TOKEN = "the token endpoint"  # noqa: S105 - what it is, not one
_REGISTRATION = "the registration endpoint"
_FORGOTTEN = frozenset({"invalid_client", "unauthorized_client"})
"""Errors by which a server says that it does not know the client (any more)."""
NONCE_WANTED = "use_dpop_nonce"
"""The error by which a server asks for a proof with the nonce that it sends along (RFC 9449 8, 9)."""
_FINAL = _FORGOTTEN | {"invalid_grant"}
_SETTLE = 30.0
"""Seconds that an exchange which uses something up (a code, a refresh token) may go on after its caller left."""


class Flow:
    """Gets tokens for one server and keeps them. Whoever calls holds the lock of what is done."""

    def __init__(self, server: str, settings: OAuthSettings, store: TokenStore, fetch: Fetcher) -> None:
        self._server = server
        self._settings = settings
        self._store = store
        self._fetch = fetch

    def grants(self) -> tuple[Grant, ...]:
        """Return what is kept for us, the latest first: of a configured client its own, else of those we registered."""
        given = self._settings.given
        wanted = given.client_id or given.metadata_url
        known = self._store.grants(self._settings.holder, self._server)
        if self._settings.dpop:
            # What was got before that was asked for is not bound, and so does not count.
            known = tuple(each if each.key else msgspec.structs.replace(each, tokens=None) for each in known)
        if given.client_id is not None:
            return tuple(grant for grant in known if grant.client.client_id == wanted)
        return tuple(grant for grant in known if grant.client.registered or grant.client.client_id == wanted)

    async def sign_in(self, found: Found, challenged: tuple[str, ...], visitor: Visitor) -> Grant:
        """Send a person to the authorisation page and return what came of it. Raises `OAuthError`."""
        metadata.check_code_flow(found.server)
        for again in (False, True):
            async with visitor() as visit:
                asked = self._scopes(found, challenged)
                client = await self._client(found, visit.redirect_uri, asked, anew=again)
                pending = _pending(found, client, visit.redirect_uri, asked)
                url = authorize.authorization_url(metadata.check_code_flow(found.server), pending)
                code = authorize.read_response(await visit.follow(url, pending.state), pending)
            try:
                return await self._obtain(found, client, tokens.code_form(code, pending), asked)
            except TokenRefused as error:
                if again or not client.registered or error.error not in _FORGOTTEN:
                    raise
        raise AssertionError("not reached: the second round returns or raises")

    async def ask(self, found: Found, challenged: tuple[str, ...]) -> Grant:
        """Get a token without anybody signing in. Raises `OAuthError`."""
        asked = tuple(scope for scope in self._scopes(found, challenged) if scope != scopes.OFFLINE)
        client = registration.known_client(self._settings.given, found.server)
        if client is None or (client.method == "none" and self._settings.grant == "client_credentials"):
            raise ConfigurationNeeded("client credentials need a `client_id` with a `client_secret` or a `private_key`")
        self._check_bound(found)
        form = await own_form(self._settings, self._fetch, found.server.issuer, found.resource.resource, asked)
        return await self._obtain(found, client, form, asked)

    async def refresh(self, grant: Grant) -> Grant:
        """Exchange the refresh token, or ask anew for the client itself. The new grant is on the disk on return.

        Raises `OAuthError`. What a server refuses for good is dropped, so that it is not tried again.
        """
        if self._settings.grant != "authorization_code":
            form = await own_form(self._settings, self._fetch, grant.issuer, grant.resource, grant.scopes)
        elif grant.tokens is None or grant.tokens.refresh_token is None:
            raise TokenRefused("there is no refresh token")
        else:
            form = tokens.refresh_form(grant.tokens.refresh_token, grant.resource)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _SETTLE):
            try:
                got = await self._exchange(grant, form)
            except TokenRefused as error:
                if error.error in _FINAL and grant.tokens is not None:
                    spent = msgspec.structs.replace(
                        grant, tokens=msgspec.structs.replace(grant.tokens, refresh_token=None)
                    )
                    await self._store.save(spent)
                raise
            renewed = msgspec.structs.replace(grant, tokens=got, saved=time.time())
            await self._store.save(renewed)
            return renewed
        raise TokenRefused(f"the token endpoint did not settle within {_SETTLE:g} s")

    async def want(self, grant: Grant, wanted: tuple[str, ...]) -> None:
        """Remember which scopes the server asked for, for the next sign-in."""
        if not set(wanted) <= set(grant.wanted):
            await self._store.save(msgspec.structs.replace(grant, wanted=scopes.union(grant.wanted, wanted)))

    def _scopes(self, found: Found, challenged: tuple[str, ...]) -> tuple[str, ...]:
        same = next((grant for grant in self.grants() if grant.issuer == found.server.issuer), None)
        wanted = scopes.union(challenged, same.wanted if same is not None else ())
        return scopes.choose(
            self._settings.scopes, wanted, found.resource.scopes_supported, found.server.scopes_supported
        )

    async def _client(self, found: Found, redirect_uri: str, asked: tuple[str, ...], *, anew: bool) -> Client:
        """Return who we are to this server, and to no other: registered there before, or now (spec 1.16)."""
        known = registration.known_client(self._settings.given, found.server)
        if known is not None:
            if self._settings.given.client_id is not None:
                self._check_bound(found)
            return known
        for grant in () if anew else self.grants():
            ours = grant.client
            usable = ours.registered and redirect_uri in ours.redirect_uris
            if (
                grant.issuer == found.server.issuer
                and usable
                and (ours.secret_expires or time.time() + 1) > time.time()
            ):
                return ours
        endpoint = found.server.registration_endpoint
        assert endpoint is not None, "known_client raises where there is none"
        body = registration.registration_request(found.server, redirect_uri, asked, "native")
        reply = await self._fetch.post_json(endpoint, _REGISTRATION, body)
        client = registration.read_registration(reply.status, reply.body, found.server, redirect_uri)
        await self._store.save(_grant(self._settings.holder, self._server, found, client))
        return client

    def _check_bound(self, found: Found) -> None:
        """A configured client is shown to its issuer alone: the configured one, or the first that took it."""
        bound = self._settings.given.issuer or next((grant.issuer for grant in self.grants()), found.server.issuer)
        if bound != found.server.issuer:
            raise ConfigurationNeeded(
                f"{self._server} now asks for tokens of {found.server.issuer}, but the configured client belongs to "
                f"{bound}: configure a client of the new one, with its `issuer`"
            )

    async def _obtain(self, found: Found, client: Client, form: dict[str, str], asked: tuple[str, ...]) -> Grant:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _SETTLE):
            asking = msgspec.structs.replace(
                _grant(self._settings.holder, self._server, found, client),
                scopes=asked,
                key=new_key(found.server) if self._settings.dpop else None,
            )
            grant = msgspec.structs.replace(asking, tokens=await self._exchange(asking, form), saved=time.time())
            await self._store.save(grant)
            for other in self.grants():
                # The resource has moved: what its former server gave must not be taken for the latest again.
                if other.issuer != grant.issuer and other.tokens is not None:
                    await self._store.save(msgspec.structs.replace(other, tokens=None))
            return grant
        raise TokenRefused(f"the token endpoint did not settle within {_SETTLE:g} s")

    async def _exchange(self, grant: Grant, form: dict[str, str]) -> Tokens:
        """Return what the grant's token endpoint gives; asked again only with the nonce that it wanted."""
        nonce = ""
        while True:
            sent, headers = tokens.authenticated(
                form, grant.client, assertion_of(grant.client, grant.issuer, self._settings)
            )
            if grant.key is not None:
                headers["dpop"] = proof_of(grant.key, "POST", grant.token_endpoint, nonce=nonce)
            reply = await self._fetch.post_form(grant.token_endpoint, _TOKEN, sent, headers)
            asks = grant.key is not None and tokens.error_of(reply.status, reply.body) == NONCE_WANTED
            if not asks or not reply.nonce or nonce:
                break
            nonce = reply.nonce
        kind: Literal["bearer", "dpop"] = "bearer" if grant.key is None else "dpop"
        try:
            return tokens.read_tokens(reply.status, reply.body, time.time(), grant.tokens, kind=kind)
        except TokenRefused as error:
            raise TokenRefused(tokens.without(sent, error.message), error.error) from None


def _pending(found: Found, client: Client, redirect_uri: str, asked: tuple[str, ...]) -> Pending:
    return Pending(
        state=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        issuer=found.server.issuer,
        issuer_sent=bool(found.server.authorization_response_iss_parameter_supported),
        client_id=client.client_id,
        redirect_uri=redirect_uri,
        resource=found.resource.resource,
        scopes=asked,
    )


def _grant(holder: str, server: str, found: Found, client: Client) -> Grant:
    return Grant(
        holder,
        server,
        found.server.issuer,
        found.resource.resource,
        found.server.token_endpoint,
        client,
        saved=time.time(),
    )

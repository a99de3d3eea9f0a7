"""Answers what `delta_protocol.wire.auth` asks, from the token file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import trio

from delta_actors.auth.tokens import TokenFile
from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_protocol.errors import Refused
from delta_protocol.wire.auth import AddedToken, AddToken, ListTokens, RevokeToken, TokenInfo, Verified, VerifyToken
from delta_protocol.wire.message import Done, Principal, Role

if TYPE_CHECKING:
    from delta_actors.mcp.resource_server import TokenVerifier


class AuthActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.AUTH

    def __init__(self) -> None:
        self._one_writer = trio.Lock()
        self._file: TokenFile | None = None
        self._issuer: TokenVerifier | None = None

    async def start(self, context: Context) -> tuple[str, ...]:
        """Read the token file; refuses to serve from one that makes no sense, or by a mode that verifies nothing."""
        self._file = TokenFile(context.state_dir / "auth.json")
        if context.config.auth.chosen == "oauth":
            # An HTTP client and cryptography, which the other modes do without.
            from delta_actors.auth.issuer import open_verifier

            self._issuer = open_verifier(context.config.auth)
        return ()

    def handlers(self) -> Handlers:
        """Verification for transport, the rest for the operator."""
        handlers = Handlers()
        handlers.ask(VerifyToken, self._verify)
        handlers.ask_inline(ListTokens, self._list)
        handlers.ask(AddToken, self._add)
        handlers.ask(RevokeToken, self._revoke)
        return handlers

    def statistics(self) -> dict[str, Any]:
        """How many static tokens there are, or how many of the issuer's were verified and refused."""
        return {"tokens": len(self._tokens.known())} if self._issuer is None else dict(self._issuer.statistics())

    async def _verify(self, request: VerifyToken, _call: Call) -> Verified:
        if self._issuer is not None:
            verified = await self._issuer.verify(request.token)
            return Verified(verified.principal, verified.identity.expires, verified.max_age)
        await trio.lowlevel.checkpoint()
        found = self._tokens.find(request.token)
        if found is None:
            raise Refused("this token is not known here, or was revoked", error="invalid_token")
        return Verified(Principal(f"token:{found.name}", "token", found.scopes))

    def _list(self, _request: ListTokens, call: Call) -> tuple[TokenInfo, ...]:
        _operator_only(call)
        return self._tokens.known()

    async def _add(self, request: AddToken, call: Call) -> AddedToken:
        _operator_only(call)
        async with self._one_writer:
            return AddedToken(await trio.to_thread.run_sync(self._tokens.add, request.name, request.scopes))

    async def _revoke(self, request: RevokeToken, call: Call) -> Done:
        _operator_only(call)
        async with self._one_writer:
            await trio.to_thread.run_sync(self._tokens.revoke, request.name)
        return Done()

    @property
    def _tokens(self) -> TokenFile:
        assert self._file is not None
        return self._file


def _operator_only(call: Call) -> None:
    if call.caller is not Role.OPERATOR:
        raise Refused(f"tokens are the operator's business, not {call.caller}'s")

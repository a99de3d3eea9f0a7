"""Answers what `delta_protocol.wire.auth` asks, from the token file."""

from __future__ import annotations

from typing import Any, ClassVar

import trio

from delta_actors.auth.tokens import TokenFile
from delta_actors.runtime.actor import Actor, Call, Context, Handlers
from delta_protocol.errors import Refused
from delta_protocol.wire.auth import AddedToken, AddToken, ListTokens, RevokeToken, TokenInfo, Verified, VerifyToken
from delta_protocol.wire.message import Done, Principal, Role


class AuthActor(Actor):
    """See the package's docstring."""

    role: ClassVar[str] = Role.AUTH

    def __init__(self) -> None:
        self._one_writer = trio.Lock()
        self._file: TokenFile | None = None

    async def start(self, context: Context) -> tuple[str, ...]:
        """Read the token file; refuses to serve from one that cannot be understood."""
        self._file = TokenFile(context.state_dir / "auth.json")
        return ()

    def handlers(self) -> Handlers:
        """Verification for transport, the rest for the operator."""
        handlers = Handlers()
        handlers.ask_inline(VerifyToken, self._verify)
        handlers.ask_inline(ListTokens, self._list)
        handlers.ask(AddToken, self._add)
        handlers.ask(RevokeToken, self._revoke)
        return handlers

    def statistics(self) -> dict[str, Any]:
        """How many tokens there are."""
        return {"tokens": len(self._tokens.known())}

    def _verify(self, request: VerifyToken, _call: Call) -> Verified:
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

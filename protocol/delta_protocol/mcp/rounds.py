"""Multi round-trip requests of the modern era (spec 1.8, acceptance 52): the answers so far travel with the client.

A handler that asks runs again from its start in every round, so its questions are numbered in the order it asks. An
answer counts for a question only if method and params are the same as when it was asked. The state is sealed, bound to
principal and call, and expires; the server that gave it out redeems it once.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.codecs import exact_json
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member, read_object
from delta_protocol.mcp.sealing import Forged, seal, unseal

_PURPOSE = "mcp-request-state"
LIFETIME = 1800.0
"""Seconds a client has for its answers."""


class _State(msgspec.Struct, array_like=True):
    nonce: str
    principal: str
    expires: float
    call: str
    answers: dict[str, tuple[str, Json]]
    asked: dict[str, str]


class Rounds:
    """The questions of one run of a handler. `nonce` is the redeemed state's, empty in the first round."""

    def __init__(self, answers: dict[str, tuple[str, Json]], nonce: str) -> None:
        self._answers = answers
        self._count = 0
        self.nonce = nonce
        self.question: tuple[str, str, Json] | None = None

    def take(self, method: str, params: Json) -> Json | None:
        """Return the answer to the handler's next question; None leaves it open, in `question`."""
        self._count += 1
        key = f"q{self._count}"
        found = self._answers.get(key)
        if found is not None and found[0] == _question_digest(method, params):
            return found[1]
        self.question = (key, method, params)
        return None

    def result(self, key: bytes, call: IncomingCall, principal: str, now: float) -> Json:
        """Return the `input_required` result that asks the open question. `now` in seconds since the epoch."""
        assert self.question is not None
        name, method, params = self.question
        state = _State(
            secrets.token_hex(12),
            principal,
            now + LIFETIME,
            call_digest(call),
            {known: answer for known, answer in self._answers.items() if known != name},
            {name: _question_digest(method, params)},
        )
        asked: dict[str, Any] = {"method": method}
        if method != "roots/list":
            asked["params"] = Raw(params)
        return msgspec.json.encode(
            {
                "resultType": "input_required",
                "inputRequests": {name: asked},
                "requestState": seal(key, _PURPOSE, msgspec.msgpack.encode(state)),
            }
        )


def read_rounds(key: bytes, call: IncomingCall, principal: str, now: float) -> Rounds:
    """Return what the client brings along.

    Raises `RpcError` -32602 for a state that is forged, expired, somebody else's or another call's, and for malformed
    answers. Answers to what was not asked are left aside; a missing one is asked again.
    """
    sealed = call.text("requestState")
    given = (
        read_object(bytes(call.params["inputResponses"]), "inputResponses") if "inputResponses" in call.params else {}
    )
    if sealed is None:
        return Rounds({}, "")
    try:
        state = msgspec.msgpack.decode(unseal(key, _PURPOSE, sealed), type=_State)
    except (Forged, msgspec.DecodeError):
        raise RpcError(INVALID_PARAMS, "requestState was not given out by this server") from None
    if state.principal != principal or state.call != call_digest(call):
        raise RpcError(INVALID_PARAMS, "requestState belongs to another request")
    if state.expires < now:
        raise RpcError(INVALID_PARAMS, "requestState has expired; call again without it")
    answers = dict(state.answers)
    for name, question in state.asked.items():
        if name in given and bytes(given[name]).startswith(b"{"):
            answers[name] = (question, bytes(given[name]))
    return Rounds(answers, state.nonce)


def call_digest(call: IncomingCall) -> str:
    """Return the digest that binds a state to method, name and arguments."""
    name = decode_member(call.params, "name")
    arguments = decode_member(call.params, "arguments")
    return exact_json.digest([call.method, name, arguments])


def _question_digest(method: str, params: Json) -> str:
    return hashlib.sha256(method.encode() + b"\0" + params).hexdigest()

"""Multi round-trip requests of the modern era (spec 1.8, acceptance 52): the answers so far travel with the client.

A handler that asks runs again from its start in every round; its questions are told apart by their keys, or numbered in
the order it asks. An answer counts for a question only if method and params are the same as when it was asked. The
state is sealed, bound to principal and call, and expires; the server that gave it out redeems it once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.codecs import exact_json
from delta_protocol.jsonrpc import INVALID_PARAMS, Json
from delta_protocol.mcp.errors import RpcError
from delta_protocol.mcp.incoming import IncomingCall, decode_member, read_object
from delta_protocol.mcp.questions import Question, fits
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
    carried: str | None = None


class Carried(msgspec.Struct, frozen=True):
    """What a handler that keeps its own rounds comes back with: the state it gave (empty where the client answers
    without having been asked), and the client's answers by key.
    """

    state: str
    answers: dict[str, Json]


class Rounds:
    """The questions of one run of a handler. `nonce` is the redeemed state's, empty in the first round.

    `answers` belong to questions that were asked, by their digest. `offered` came without a state: they count only for
    questions that the handler gave a key.
    """

    def __init__(
        self, answers: dict[str, tuple[str, Json]], nonce: str, offered: Mapping[str, Json] | None = None
    ) -> None:
        self._answers = answers
        self._offered = offered or {}
        self._count = 0
        self._keys: set[str] = set()
        self.nonce = nonce
        self.open: dict[str, Question] = {}
        self.carried: Carried | None = Carried("", dict(offered)) if offered else None
        self._carries: str | None = None

    def take(self, questions: Sequence[Question]) -> list[Json] | None:
        """Return the answers to the handler's next questions; None leaves those without an answer in `open`.

        Raises `ValueError` for a key that the handler used before.
        """
        answers: list[Json] = []
        for question in questions:
            key = self._key(question)
            answer = self._answer(key, question)
            if answer is None:
                self.open[key] = question
            else:
                answers.append(answer)
        return None if self.open else answers

    def suspend(self, questions: Mapping[str, Question], state: str) -> None:
        """End the run with these questions, by key; the next one begins with `carried`. For a handler with rounds of
        its own, such as one that asks on behalf of another server.
        """
        self.open = dict(questions)
        self._carries = state

    def _answer(self, key: str, question: Question) -> Json | None:
        digest, answer = self._answers.get(key, ("", b""))
        if digest == question.digest and fits(question, answer):
            return answer
        offered = self._offered.get(key) if question.key else None
        if offered is None or not fits(question, offered):
            return None
        self._answers[key] = (question.digest, offered)
        return offered

    def _key(self, question: Question) -> str:
        self._count += 1
        key = question.key or f"q{self._count}"
        if key in self._keys:
            raise ValueError(f"there are two questions with the key {key!r}")
        self._keys.add(key)
        return key

    def result(self, key: bytes, call: IncomingCall, principal: str, now: float) -> Json:
        """Return the `input_required` result that asks the open questions. `now` in seconds since the epoch."""
        state = _State(
            secrets.token_hex(12),
            principal,
            now + LIFETIME,
            call_digest(call),
            {known: answer for known, answer in self._answers.items() if known not in self.open},
            {name: question.digest for name, question in self.open.items()},
            self._carries,
        )
        asked = {name: _asked(question) for name, question in self.open.items()}
        return msgspec.json.encode(
            {
                "resultType": "input_required",
                **({"inputRequests": asked} if asked else {}),
                "requestState": seal(key, _PURPOSE, msgspec.msgpack.encode(state)),
            }
        )


def _asked(question: Question) -> dict[str, Any]:
    asked: dict[str, Any] = {"method": question.method}
    if question.method != "roots/list":
        asked["params"] = Raw(question.params)
    return asked


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
        return Rounds({}, "", {name: bytes(answer) for name, answer in given.items()})
    try:
        state = msgspec.msgpack.decode(unseal(key, _PURPOSE, sealed), type=_State)
    except (Forged, msgspec.DecodeError):
        raise RpcError(INVALID_PARAMS, "requestState was not given out by this server") from None
    if state.principal != principal or state.call != call_digest(call):
        raise RpcError(INVALID_PARAMS, "requestState belongs to another request")
    if state.expires < now:
        raise RpcError(INVALID_PARAMS, "requestState has expired; call again without it")
    if state.carried is not None:
        rounds = Rounds({}, state.nonce)
        rounds.carried = Carried(state.carried, {name: bytes(given[name]) for name in state.asked if name in given})
        return rounds
    answers = dict(state.answers)
    for name, question in state.asked.items():
        if name in given and bytes(given[name]).startswith(b"{"):
            answers[name] = (question, bytes(given[name]))
    return Rounds(answers, state.nonce)


def call_digest(call: IncomingCall) -> str:
    """Return the digest that binds a state to the method and what it names."""
    named = [decode_member(call.params, member) for member in ("name", "uri", "arguments")]
    return exact_json.digest([call.method, *named])

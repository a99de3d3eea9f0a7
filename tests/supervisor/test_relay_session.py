"""What a relay remembers: a client notices a restart only by typed errors for what was lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from delta_supervisor.relay.session import Session, is_request

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def call(identity: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": {}})


def answer(identity: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": identity, "result": {}})


@pytest.fixture
def session() -> Session:
    """A session past its introduction."""
    session = Session()
    assert session.from_client(line(INITIALIZE))
    assert session.from_server(answer(0))
    assert session.from_client(line(INITIALIZED))
    return session


@pytest.mark.parametrize("identity", [1, "one", 9007199254740993, "é", ""])
def test_a_request_in_flight_is_answered_with_a_typed_error(session: Session, identity: Any) -> None:
    session.from_client(call(identity))
    (lost,) = [json.loads(each) for each in session.lost()]
    assert lost["id"] == identity
    assert lost["error"]["data"]["code"] == "actor_crashed"
    assert lost["error"]["data"]["executed"] == "unknown"
    assert session.idle


def test_an_answered_request_is_not_lost(session: Session) -> None:
    session.from_client(call(1))
    assert session.from_server(answer(1))
    assert list(session.lost()) == []


def test_the_introduction_is_repeated_and_its_answer_kept_from_the_client(session: Session) -> None:
    list(session.lost())
    assert [json.loads(each) for each in session.resume()] == [INITIALIZE]
    assert session.resuming
    assert not session.from_server(answer(0))
    assert not session.resuming
    assert json.loads(session.resumed() or b"") == INITIALIZED


def test_an_unanswered_introduction_is_sent_again_and_answered_to_the_client() -> None:
    session = Session()
    session.from_client(line(INITIALIZE))
    assert list(session.lost()) == []
    assert [json.loads(each) for each in session.resume()] == [INITIALIZE]
    assert not session.resuming
    assert session.from_server(answer(0))


def test_a_client_without_an_introduction_needs_none_again() -> None:
    session = Session()
    session.from_client(line({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}))
    assert len(list(session.lost())) == 1
    assert list(session.resume()) == []
    assert not session.resuming


def test_a_question_of_a_lost_transport_is_withdrawn_and_its_answer_dropped(session: Session) -> None:
    assert session.from_server(line({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {}}))
    (withdrawn,) = [json.loads(each) for each in session.lost()]
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", 7)
    assert not session.from_client(answer(7))


def test_the_answer_to_a_living_question_is_passed_on_once(session: Session) -> None:
    session.from_server(line({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}))
    assert session.from_client(answer(7))
    assert not session.from_client(answer(7))


@pytest.mark.parametrize("text", [b"what?\n", b"[]\n", b"{}\n", b'"x"\n', b"\xff\n"])
def test_what_is_no_message_is_for_the_server_to_answer(session: Session, text: bytes) -> None:
    assert session.from_client(text) or text == b"{}\n"
    assert list(session.lost()) == []


def test_only_requests_start_a_stack_again() -> None:
    assert is_request(call(1))
    assert not is_request(line(INITIALIZED))
    assert not is_request(answer(1))


def test_what_cannot_be_sent_is_refused_if_it_asked_for_something(session: Session) -> None:
    refused = session.drop(call("x"), "actor_unavailable", "no stack")
    assert refused is not None
    assert json.loads(refused)["error"]["data"] == {"code": "actor_unavailable"}
    assert session.drop(line(INITIALIZED), "actor_unavailable", "no stack") is None

"""Results of one era as the other has them (spec 1.1, 2.1)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.questions import Question, elicit_url
from delta_protocol.mcp.versions import META_SERVER_INFO

_MODERN = ("resultType", "ttlMs", "cacheScope")

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Asked(msgspec.Struct, frozen=True):
    """What an `input_required` result asks, by key, and the state to come back with."""

    questions: dict[str, Question]
    state: str | None = None


class _InputRequest(msgspec.Struct):
    method: str
    params: Raw = Raw(b"{}")


class _InputRequired(msgspec.Struct, rename="camel"):
    result_type: str = "complete"
    input_requests: dict[str, _InputRequest] = {}
    request_state: str | None = None


def asked_in(result: Json) -> Asked | None:
    """Return what a result asks, None for one that is complete (spec 1.8)."""
    if b'"input_required"' not in result:
        return None
    try:
        found = msgspec.json.decode(result, type=_InputRequired)
    except (msgspec.DecodeError, RecursionError):
        return None
    if found.result_type != "input_required":
        return None
    asked = {key: Question(each.method, bytes(each.params), key) for key, each in found.input_requests.items()}
    return Asked(asked, found.request_state)


class _UrlElicitation(msgspec.Struct):
    message: str
    url: str


class _UrlsRequired(msgspec.Struct):
    elicitations: list[_UrlElicitation]


def urls_in(data: Json | None) -> Asked | None:
    """Return what a legacy -32042 error wants its client to open, as modern questions (spec 3.4)."""
    try:
        found = msgspec.json.decode(data or b"null", type=_UrlsRequired)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Asked({f"u{at}": elicit_url(each.message, each.url) for at, each in enumerate(found.elicitations, 1)})


def without_modern(result: Json) -> Json:
    """Return a result without the members that only modern servers put there; everything else keeps its text."""
    if b'"resultType"' not in result:
        return result
    members: dict[str, Any] = dict(_decode_object(result))
    for key in _MODERN:
        members.pop(key, None)
    if "_meta" in members:
        meta = {key: value for key, value in _decode_object(members["_meta"]).items() if key != META_SERVER_INFO}
        members["_meta"] = meta
        if not meta:
            del members["_meta"]
    return msgspec.json.encode(members)

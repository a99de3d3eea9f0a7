"""What a server may ask of its client, in either era (spec 1.14, 3.4)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from delta_protocol.jsonrpc import Json
from delta_protocol.mcp.offers import PromptMessage
from delta_protocol.mcp.types import json_object
from delta_protocol.mcp.versions import Era


class Question(msgspec.Struct, frozen=True):
    """A question and its params as JSON text.

    `key` names it among the questions of one call; left empty, the questions are numbered in the order they are asked.
    """

    method: str
    params: Json = b"{}"
    key: str = ""

    @property
    def digest(self) -> str:
        """What an answer is bound to: method and params."""
        return hashlib.sha256(self.method.encode() + b"\0" + self.params).hexdigest()


def elicit(message: str, schema: dict[str, Any], *, key: str = "") -> Question:
    """Return the question for a form; `schema` is a flat object of primitives. The answer is an ElicitResult."""
    return Question("elicitation/create", _encode({"message": message, "requestedSchema": schema}), key)


def elicit_url(message: str, url: str, *, key: str = "") -> Question:
    """Return the question whether the user opens `url`; accepting is consent, not completion (spec 1.14)."""
    return Question("elicitation/create", _encode({"mode": "url", "message": message, "url": url}), key)


def sample(
    messages: Sequence[PromptMessage], max_tokens: int, *, key: str = "", more: dict[str, Any] | None = None
) -> Question:
    """Return the question to the client's model; `more` are further members of the params, as the protocol names them.

    The answer is a CreateMessageResult.
    """
    return Question(
        "sampling/createMessage", _encode({"messages": messages, "maxTokens": max_tokens, **(more or {})}), key
    )


def roots(*, key: str = "") -> Question:
    """Return the question for the client's roots. The answer is a ListRootsResult."""
    return Question("roots/list", b"{}", key)


def for_era(question: Question, era: Era) -> Question:
    """Return the question as the era has it: only legacy URL elicitation carries an id (spec 2.1)."""
    if question.method != "elicitation/create" or b"url" not in question.params:
        return question
    members: dict[str, Any] = dict(msgspec.json.decode(question.params, type=dict[str, Raw]))
    if "mode" not in members or bytes(members["mode"]) != b'"url"':
        return question
    if era == "legacy":
        members.setdefault("elicitationId", secrets.token_urlsafe(16))
    else:
        members.pop("elicitationId", None)
    return msgspec.structs.replace(question, params=_encode(members))


def fits(question: Question, answer: Json) -> bool:
    """Return whether `answer` is a result that the question can have; one that is not is asked for again (spec 1.8)."""
    try:
        body = json_object(msgspec.json.decode(answer))
        asked = json_object(msgspec.json.decode(question.params))
    except (msgspec.DecodeError, RecursionError):
        return False
    match question.method:
        case "elicitation/create":
            return _fits_elicitation(body, asked)
        case "sampling/createMessage":
            return isinstance(body.get("role"), str) and isinstance(body.get("content"), dict | list)
        case _:
            return isinstance(body.get("roots"), list)


def accept_with_defaults(params: Json, content: dict[str, Any] | None = None) -> Json:
    """Return the ElicitResult that accepts a form: `content`, and for the fields left out the form's own defaults.

    What the form does not have is left out (spec 1.14, SEP-1034). For a URL the answer is consent alone.
    """
    asked = json_object(msgspec.json.decode(params))
    if asked.get("mode") == "url":
        return b'{"action":"accept"}'
    fields = json_object(json_object(asked.get("requestedSchema")).get("properties"))
    given = {name: value for name, value in (content or {}).items() if name in fields}
    defaults = {
        name: json_object(field)["default"] for name, field in fields.items() if "default" in json_object(field)
    }
    return _encode({"action": "accept", "content": defaults | given})


_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
}


def _fits_elicitation(body: dict[str, Any], asked: dict[str, Any]) -> bool:
    action = body.get("action")
    if action != "accept" or asked.get("mode") == "url":
        return action in ("accept", "decline", "cancel")
    content, schema = json_object(body.get("content")), json_object(asked.get("requestedSchema"))
    fields = json_object(schema.get("properties"))
    if any(name not in content for name in schema.get("required", ())):
        return False
    return all(_fits_field(json_object(fields.get(name)).get("type"), value) for name, value in content.items())


def _fits_field(kind: object, value: object) -> bool:
    expected = _KINDS.get(kind) if isinstance(kind, str) else None
    if expected is None:
        return True
    return isinstance(value, expected) and (kind == "boolean" or not isinstance(value, bool))


def _encode(body: dict[str, Any]) -> Json:
    return msgspec.json.encode(body)

"""Bare clients written from the protocol's text, so that the checks do not lean on our own code.

Both kinds, over lines and over HTTP, speak either era; every wait has a deadline.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeGuard, cast

import httpx

Message = dict[str, Any]
Era = Literal["legacy", "modern"]

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
DELTA_MCP = "delta-mcp/0.2.0"
DELTA_MCP_CAPABILITIES: Message = {
    "tools": {"progressiveDisclosure": True, "lazyLoading": True},
    "encoding": {"compactJson": True},
}
COMPACT = "application/json; variant=compact"
INFO = {"name": "conformance", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": INFO,
}
PATIENCE = 20.0
"""Seconds for one answer."""

_PIPE = 4096
"""Bytes that a pipe takes at once where it is ready to take any (PIPE_BUF)."""
_KEYS = {
    "jsonrpc": "j", "method": "m", "params": "p", "result": "r", "error": "e", "id": "i", "code": "c",
    "message": "msg", "name": "n", "description": "d", "inputSchema": "s", "outputSchema": "os", "tools": "t",
    "content": "cnt", "type": "tp", "text": "tx",
}  # fmt: skip
_LONG = {short: long for long, short in _KEYS.items()}


class Silent(AssertionError):
    """No answer came in time, or the server's end closed first."""


class Peer(Protocol):
    """A client in a session."""

    era: Era
    compact: bool
    info: Message
    """What the server said to `begin`."""

    def begin(self, version: str = LEGACY, capabilities: Mapping[str, Any] | None = None) -> Message:
        """Do the legacy handshake and return the answer."""
        ...

    def ask(self, method: str, /, **params: Any) -> Message:  # noqa: ANN401 - any JSON value
        """Send a request and return the response message."""
        ...

    def note(self, method: str, /, **params: Any) -> None:  # noqa: ANN401 - any JSON value
        """Send a notification."""
        ...


def shorten(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with compact-json's keys."""
    if is_object(value):
        return {_short(key): shorten(item) for key, item in value.items()}
    return [shorten(item) for item in value] if is_array(value) else value


def expand(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Undo `shorten`."""
    if is_object(value):
        return {key[1:] if key[0:1] == "~" else _LONG.get(key, key): expand(item) for key, item in value.items()}
    return [expand(item) for item in value] if is_array(value) else value


def is_object(value: object) -> TypeGuard[Message]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def _short(key: str) -> str:
    return f"~{key}" if key in _LONG or key.startswith("~") else _KEYS.get(key, key)


def request(number: object, method: str, params: Mapping[str, Any], era: Era) -> Message:
    """Return a request, with the metadata that every one of the modern era carries."""
    meta = {**META, **params.get("_meta", {})} if era == "modern" else params.get("_meta")
    whole = {**params, "_meta": meta} if meta else dict(params)
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": whole}


class Lines:
    """A server's process and its pipes. `heard` holds what came without being asked for."""

    def __init__(self, command: Sequence[str], era: Era = "legacy") -> None:
        self.era: Era = era
        self.compact = False
        self.info: Message = {}
        self.heard: list[Message] = []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._rest = b""
        self._number = 0

    def begin(self, version: str = LEGACY, capabilities: Mapping[str, Any] | None = None) -> Message:
        params = {"protocolVersion": version, "capabilities": dict(capabilities or {}), "clientInfo": INFO}
        answer = self.ask("initialize", **params)
        self.info = answer.get("result", {})
        self.compact = self.info.get("encoding", {}).get("format") == "compact-json"
        self.note("notifications/initialized")
        return answer

    def ask(self, method: str, /, **params: Any) -> Message:  # noqa: ANN401 - any JSON value
        self._number += 1
        self.send(request(self._number, method, params, self.era))
        return self.answer(self._number)

    def note(self, method: str, /, **params: Any) -> None:  # noqa: ANN401 - any JSON value
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Message | bytes) -> None:
        """Write one line."""
        if not isinstance(message, bytes):
            message = json.dumps(shorten(message) if self.compact else message).encode()
        rest = memoryview(message + b"\n")
        while rest:
            _, ready, _ = select.select([], [self._in], [], PATIENCE)
            if not ready:
                raise Silent("the server does not read")
            rest = rest[os.write(self._in.fileno(), rest[:_PIPE]) :]

    def answer(self, number: object) -> Message:
        """Return the response to a request; what comes before it is kept in `heard`."""
        for message in self.heard:
            if message.get("id") == number and "method" not in message:
                self.heard.remove(message)
                return message
        while True:
            message = self.receive()
            if message.get("id") == number and type(message.get("id")) is type(number) and "method" not in message:
                return message
            self.heard.append(message)

    @property
    def answers(self) -> list[Message]:
        """The responses among what came without being asked for."""
        return [message for message in self.heard if "method" not in message]

    def reply(self) -> Message:
        """Return the next response, whatever it answers; what else comes is kept in `heard`."""
        while "method" in (message := self.receive()):
            self.heard.append(message)
        return message

    def receive(self, seconds: float = PATIENCE) -> Message:
        """Return the next message, whatever it is."""
        message = json.loads(self.line(seconds))
        return cast("Message", expand(message) if "j" in message else message)

    def line(self, seconds: float = PATIENCE) -> bytes:
        """Return the next line. Raises `Silent`."""
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._out.fileno(), 1 << 16) if ready else b""
            if not chunk:
                raise Silent("no answer in time" if not ready else "the server closed its stdout")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close_input(self) -> None:
        """Close the server's stdin."""
        self._in.close()

    def close(self) -> None:
        """End the process, however it goes."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._in.close()
        self._out.close()


class Web:
    """A client of one endpoint. `session` is what the server called its session."""

    def __init__(self, url: str, era: Era = "legacy") -> None:
        self.url = url
        self.era: Era = era
        self.compact = False
        self.info: Message = {}
        self.session = ""
        self.version = LEGACY
        self.client = httpx.Client(timeout=PATIENCE, trust_env=False)
        self._number = 0

    def begin(self, version: str = LEGACY, capabilities: Mapping[str, Any] | None = None) -> Message:
        params = {"protocolVersion": version, "capabilities": dict(capabilities or {}), "clientInfo": INFO}
        response = self.post(request(0, "initialize", params, "legacy"), {"MCP-Protocol-Version": None})
        self.session = response.headers.get("mcp-session-id", "")
        answer = message_of(response, 0)
        self.info = answer.get("result", {})
        told = self.info.get("protocolVersion", LEGACY)
        self.version = str(self.info.get("baselineVersion", told))
        self.note("notifications/initialized")
        return answer

    def ask(self, method: str, /, **params: Any) -> Message:  # noqa: ANN401 - any JSON value
        self._number += 1
        message = request(self._number, method, params, self.era)
        return message_of(self.post(message), self._number)

    def note(self, method: str, /, **params: Any) -> None:  # noqa: ANN401 - any JSON value
        self.post({"jsonrpc": "2.0", "method": method, "params": params})

    def post(self, message: object, headers: Mapping[str, str | None] | None = None) -> httpx.Response:
        """Post a message, or bytes as they are; a header that is None is left out."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.client.post(self.url, content=body, headers=self.headers(message, headers))

    def headers(self, message: object, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Return the headers of a request of this session and era."""
        told: dict[str, str | None] = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": self.version if self.era == "legacy" else MODERN,
            "Mcp-Session-Id": self.session or None,
        }
        if self.era == "modern" and is_object(message):
            method, params = message["method"], message.get("params", {})
            told |= {"Mcp-Method": method, "Mcp-Name": params["name"] if method == "tools/call" else None}
        return {name: value for name, value in {**told, **(changes or {})}.items() if value is not None}

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def message_of(response: httpx.Response, number: object) -> Message:
    """Return the response message in a body of JSON or events."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        data = [line[5:].strip() for line in response.text.splitlines() if line.startswith("data:")]
        found = [message for each in data if each and (message := json.loads(each)).get("id") == number]
        if not found:
            raise Silent("the stream ended without an answer")
        return cast("Message", found[-1])
    try:
        return cast("Message", response.json())
    except ValueError:
        raise Silent(f"HTTP {response.status_code} without a message: {response.text[:200]!r}") from None


def error_of(answer: Message) -> Message:
    """Return an answer's error, an empty one where it has none."""
    return cast("Message", answer.get("error", {}))


def code_of(answer: Message) -> int | None:
    """Return the code of an answer's error, None where it has none."""
    code: int | None = error_of(answer).get("code")
    return code


def result_of(answer: Message) -> Message:
    """Return an answer's result; fails with the error it has instead."""
    assert "result" in answer, f"an error came: {answer.get('error')}"
    return cast("Message", answer["result"])


def text_of(answer: Message) -> str:
    """Return the first text block of a tool's result."""
    blocks = [block for block in result_of(answer)["content"] if block["type"] == "text"]
    assert blocks, "the result has no text"
    return str(blocks[0]["text"])

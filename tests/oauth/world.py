"""A resource and its authorisation server on loopback sockets, with everything a test may want to bend."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import trio

from delta_actors.mcp.oauth_redirect import Visit, Visitor
from tests.mcp.web import listening


@dataclass(slots=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body) if self.body else {}


@dataclass(slots=True)
class Answer:
    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])


Handler = Callable[[Asked], Answer]


@asynccontextmanager
async def web(handler: Handler) -> AsyncGenerator[str]:
    """Serve one request per connection and give the origin."""

    async def serve(stream: trio.SocketStream) -> None:
        try:
            async with stream:
                await _serve(stream, handler)
        except trio.BrokenResourceError:
            return

    with listening() as listener:
        own = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, serve, [own]))
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            nursery.cancel_scope.cancel()


async def _serve(stream: trio.SocketStream, handler: Handler) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65536)
        if not more:
            return
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive_some(65536)
    verb, target, _ = first.split()
    parts = urlsplit(target)
    answer = handler(Asked(verb, parts.path, dict(parse_qsl(parts.query)), headers, body))
    text = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    given = {"content-type": "application/json", "content-length": str(len(text)), "connection": "close"}
    shown = "".join(f"{name}: {value}\r\n" for name, value in {**given, **answer.headers}.items())
    await stream.send_all(f"HTTP/1.1 {answer.status} X\r\n{shown}\r\n".encode() + text)


class AuthorizationServer:
    """Rotates refresh tokens; the use of a spent one revokes the whole family (RFC 9700 4.14.2)."""

    def __init__(self) -> None:
        self.origin = ""
        self.asked: list[Asked] = []
        self.metadata: dict[str, Any] = {"token_endpoint_auth_methods_supported": ["none"]}
        self.lifetime: float | None = 3600
        self.refreshing = True
        self.token_type = "Bearer"
        self.grace = 0.0
        """Seconds that tokens count beyond what is said of them."""
        self.iss: str | None = "right"
        self.clients: dict[str, dict[str, Any]] = {}
        self.access: dict[str, tuple[float, str]] = {}
        """By token: until when, and its scopes."""
        self.refresh: dict[str, str] = {}
        self.spent: set[str] = set()
        self.reused = 0
        self._codes: dict[str, dict[str, str]] = {}

    def paths(self) -> list[str]:
        return [each.path for each in self.asked]

    def count(self, path: str) -> int:
        return self.paths().count(path)

    def grants(self) -> list[str]:
        return [each.form["grant_type"] for each in self.asked if each.path == "/token"]

    def revoke(self) -> None:
        self.access.clear()

    def handle(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        match asked.path:
            case "/.well-known/oauth-authorization-server":
                return Answer(body=self._document())
            case "/register":
                name = f"client-{len(self.clients) + 1}"
                self.clients[name] = asked.json
                return Answer(201, {"client_id": name, "redirect_uris": asked.json["redirect_uris"]})
            case "/authorize":
                return self._authorize(asked.query)
            case "/token":
                return self._token(asked.form)
            case _:
                return Answer(404)

    def _document(self) -> dict[str, Any]:
        document = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        return {name: value for name, value in document.items() if value is not None}

    def _authorize(self, query: dict[str, str]) -> Answer:
        code = secrets.token_hex(8)
        self._codes[code] = query
        back = {"code": code, "state": query["state"]}
        if self.iss is not None:
            back["iss"] = self.origin if self.iss == "right" else self.iss
        return Answer(302, headers={"location": f"{query['redirect_uri']}?{urlencode(back)}"})

    def _token(self, form: dict[str, str]) -> Answer:
        match form["grant_type"]:
            case "authorization_code":
                query = self._codes.pop(form["code"], None)
                challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
                if query is None or query["code_challenge"] != challenge.rstrip(b"=").decode():
                    return Answer(400, {"error": "invalid_grant"})
                if form["client_id"] not in self.clients and form["client_id"].startswith("client-"):
                    return Answer(401, {"error": "invalid_client"})
                return self._give(query.get("scope", ""))
            case "refresh_token":
                token = form["refresh_token"]
                if token in self.spent:
                    self.reused += 1
                    self.refresh.clear()
                if token not in self.refresh:
                    return Answer(400, {"error": "invalid_grant"})
                self.spent.add(token)
                return self._give(self.refresh.pop(token))
            case _:
                return self._give(form.get("scope", ""))

    def _give(self, scope: str) -> Answer:
        token, refresh = f"t-{secrets.token_hex(8)}", f"r-{secrets.token_hex(8)}"
        self.access[token] = (time.time() + (self.lifetime or 1e9) + self.grace, scope)
        answer: dict[str, Any] = {"access_token": token, "token_type": self.token_type}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if self.refreshing:
            self.refresh[refresh] = scope
            answer["refresh_token"] = refresh
        return Answer(body=answer)


TOOLS = [
    {"name": "get_note", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "add_note", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}},
]


class Resource:
    """A modern MCP server at /mcp that takes its authorisation server's tokens, or, `open`, anybody."""

    def __init__(self, server: AuthorizationServer) -> None:
        self.server = server
        self.origin = ""
        self.asked: list[Asked] = []
        self.metadata: dict[str, Any] = {}
        self.challenge_scope: str | None = None
        self.call_scope: str | None = None
        """A scope that `tools/call` needs beyond any token."""
        self.body: bytes = b""
        self.open = False
        self.refusing = ""
        """What every call is refused with, if anything."""

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def sent(self) -> list[str]:
        return [each.headers.get("authorization", "") for each in self.asked if each.method == "POST"]

    def handle(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if asked.path == "/.well-known/oauth-protected-resource/mcp":
            known = {"resource": self.url, "authorization_servers": [self.server.origin]}
            return Answer(body={**known, **self.metadata})
        if asked.path != "/mcp" or asked.method != "POST":
            return Answer(404)
        until, scope = self.server.access.get(asked.headers.get("authorization", "").partition(" ")[2], (0.0, ""))
        if until < time.time() and not self.open:
            extra = f', scope="{self.challenge_scope}"' if self.challenge_scope else ""
            return Answer(401, self.body, {"www-authenticate": f'Bearer error="invalid_token"{extra}'})
        if asked.json["method"] == "tools/call" and self.call_scope and self.call_scope not in scope.split():
            extra = f'Bearer error="insufficient_scope", scope="{self.call_scope}"'
            return Answer(403, b"", {"www-authenticate": extra})
        if asked.json["method"] == "tools/call" and self.refusing:
            return Answer(403, self.refusing.encode())
        result: dict[str, Any] = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
        if asked.json["method"] == "server/discover":
            result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            result |= {"ttlMs": 0, "cacheScope": "private"}
        elif asked.json["method"] == "tools/list":
            result = {"resultType": "complete", "tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
        return Answer(body={"jsonrpc": "2.0", "id": asked.json["id"], "result": result})


@dataclass(slots=True)
class World:
    server: AuthorizationServer
    resource: Resource

    @property
    def url(self) -> str:
        return self.resource.url


@asynccontextmanager
async def world() -> AsyncGenerator[World]:
    server = AuthorizationServer()
    resource = Resource(server)
    async with web(server.handle) as server_origin, web(resource.handle) as resource_origin:
        server.origin, resource.origin = server_origin, resource_origin
        yield World(server, resource)


class Browser:
    """Follows the authorisation page's redirect by itself, as a browser does without asking anybody."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def visitor(self) -> Visitor:
        @asynccontextmanager
        async def visit() -> AsyncGenerator[Visit]:
            yield self

        return visit

    @property
    def redirect_uri(self) -> str:
        return "http://127.0.0.1:9/callback"

    async def follow(self, url: str, state: str) -> str:
        return urlsplit(await self.location(url)).query

    async def location(self, url: str) -> str:
        self.opened.append(url)
        async with httpx.AsyncClient() as http:
            return (await http.get(url)).headers["location"]

    async def show(self, url: str) -> None:
        """Open a page and go where it leads."""
        location = await self.location(url)
        async with httpx.AsyncClient() as http:
            await http.get(location)

    def asked(self) -> list[dict[str, str]]:
        return [{name: values[0] for name, values in parse_qs(urlsplit(url).query).items()} for url in self.opened]

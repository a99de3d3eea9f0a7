"""An authorisation server on a socket of its own: its keys, its introspection endpoint, and what a test makes it do."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import jwt
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """One for the whole run: to make one takes long."""
    return rsa.generate_private_key(65537, 2048)


def pem(key: PrivateKey) -> bytes:
    """The public half as text, as an attacker may get it."""
    form, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(form, kind)


def jwk(key: PrivateKey, kid: str = "", **more: Any) -> dict[str, Any]:
    """The public half of `key` as its issuer publishes it."""
    made: dict[str, Any]
    if isinstance(key, rsa.RSAPrivateKey):
        made = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        made = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        made = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    made.pop("key_ops", None)
    return {**made, **({"kid": kid} if kid else {}), **more}


def part(value: Any) -> str:
    """One part of a token."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class Authority:
    """`url` is the issuer. `keys` are published; `tokens` are what introspection says of each, else `active: false`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.keys: list[dict[str, Any]] = [jwk(self.key, "k1")]
        self.tokens: dict[str, dict[str, Any]] = {}
        self.answer: tuple[int, bytes] | None = None
        self.headers = ""
        self.open = trio.Event()
        self.open.set()
        self.requests: list[str] = []
        self.credentials: list[str] = []
        self.forms: list[dict[str, list[str]]] = []

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def introspection_url(self) -> str:
        return f"{self.url}/introspect"

    def claims(self, audience: str, **changes: Any) -> dict[str, Any]:
        """Good claims, with changes; None takes one away."""
        made = {"iss": self.url, "aud": audience, "exp": int(time.time()) + 300, "sub": "ada", "scope": "read"}
        return {name: value for name, value in {**made, **changes}.items() if value is not None}

    def token(self, audience: str, *, kid: str = "k1", key: PrivateKey | None = None, **changes: Any) -> str:
        """A token as the issuer gives it out."""
        return self.sign(self.claims(audience, **changes), {"kid": kid, "typ": "at+jwt"}, key)

    def sign(self, claims: Any, headers: dict[str, Any], key: PrivateKey | None = None) -> str:
        """Sign anything."""
        used = key or self.key
        kinds = {rsa.RSAPrivateKey: "RS256", ec.EllipticCurvePrivateKey: "ES256"}
        algorithm = next((name for kind, name in kinds.items() if isinstance(used, kind)), "EdDSA")
        return jwt.api_jws.encode(json.dumps(claims).encode(), used, algorithm, headers)

    async def serve(self, stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = await stream.receive_some()
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += await stream.receive_some()
        path = first.split(" ")[1]
        self.requests.append(path)
        self.credentials.append(headers.get("authorization", ""))
        await self.open.wait()
        status, text = self.answer or (200, self._document(path, body.decode()))
        reply = f"HTTP/1.1 {status} X\r\ncontent-length: {len(text)}\r\nconnection: close\r\n{self.headers}\r\n"
        await stream.send_all(reply.encode() + text)

    def _document(self, path: str, body: str) -> bytes:
        if path == "/jwks":
            return json.dumps({"keys": self.keys}).encode()
        form = parse_qs(body)
        self.forms.append(form)
        return json.dumps(self.tokens.get(form["token"][0], {"active": False})).encode()


@asynccontextmanager
async def authority() -> AsyncIterator[Authority]:
    """Serve one until the block ends."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made = Authority(listener.socket.getsockname()[1])

    async def serve(stream: trio.SocketStream) -> None:
        try:
            await made.serve(stream)
        except trio.BrokenResourceError:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield made
        nursery.cancel_scope.cancel()

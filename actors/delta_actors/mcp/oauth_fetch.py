"""Requests to authorisation servers, through a guard: every host is resolved, every address of it judged, and the
connection made to the very address that was judged, so that a name cannot mean something else a moment later
(acceptance 70). Nothing is redirected, sizes and times are bounded, and no proxy of the environment is used."""

from __future__ import annotations

import functools
import socket
import ssl
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import httpcore
import httpx
import trio

from delta_protocol.mcp.oauth.addresses import fault_of
from delta_protocol.mcp.oauth.errors import MetadataRefused, OAuthError
from delta_protocol.mcp.oauth.urls import check_url

MAX_BODY = 256 << 10
TIMEOUT = 15.0
"""Seconds for a whole request, name and all."""
MAX_ADDRESSES = 8
ADDRESS_TIMEOUT = 3.0
"""Seconds that one address has to answer: a family that leads nowhere must leave time for the other."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_FAULTS = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    trio.TooSlowError,
)


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of `host`. Raises `OSError`."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to judged addresses only. `local`: loopback and private networks are allowed, as the connector is there.

    A name with one forbidden address is refused whole: which of them is taken is otherwise chance.
    """

    def __init__(
        self, *, local: bool, resolver: Resolve = resolve, inner: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        self._local = local
        self._resolve = resolver
        self._inner = inner or cast("httpcore.AsyncNetworkBackend", httpcore.TrioBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the backend's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of `host` that answers. Raises `MetadataRefused`, `httpcore.ConnectError`."""
        try:
            addresses = (await self._resolve(host.strip("[]"), port))[:MAX_ADDRESSES]
        except OSError as error:
            raise httpcore.ConnectError(f"{host} has no address: {error.strerror or error}") from None
        for address in addresses:
            if fault := fault_of(address, local=self._local):
                raise MetadataRefused(f"nothing is sent to {host}: {fault}")
        patience = ADDRESS_TIMEOUT if timeout is None else min(timeout, ADDRESS_TIMEOUT)
        last: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, patience, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last


@functools.cache
def _trust() -> ssl.SSLContext:
    """Built on first use, as it takes tens of milliseconds; SSL_CERT_FILE and SSL_CERT_DIR count."""
    return httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the HTTP status and the whole body."""

    status: int
    body: bytes
    nonce: str = ""
    """What the next proof of possession must contain (RFC 9449 8)."""


class Fetcher:
    """Sends single requests; each has its own connection, as there are few of them and long between."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def get(self, url: str, what: str) -> Reply:
        """Fetch a document; `what` it is stands in errors. Raises `OAuthError`."""
        return await self._send("GET", url, what, None, {"accept": "application/json"})

    async def post_form(self, url: str, what: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        """Send a form, once. Raises `OAuthError`."""
        kind = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        return await self._send("POST", url, what, urllib.parse.urlencode(form).encode(), {**headers, **kind})

    async def post_json(self, url: str, what: str, body: bytes) -> Reply:
        """Send a JSON document, once. Raises `OAuthError`."""
        kind = {"content-type": "application/json", "accept": "application/json"}
        return await self._send("POST", url, what, body, kind)

    async def _send(self, method: str, url: str, what: str, content: bytes | None, headers: Mapping[str, str]) -> Reply:
        check_url(url, what)
        context = _trust() if url.startswith("https:") else None
        try:
            with trio.fail_after(TIMEOUT):
                async with httpcore.AsyncConnectionPool(context, network_backend=self._backend) as pool:
                    request = pool.stream(method, url, headers=list(headers.items()), content=content)
                    async with request as response:
                        return Reply(response.status, await _read(response, what), _nonce(response))
        except _FAULTS as error:
            words = f"no answer within {TIMEOUT:g} s" if isinstance(error, trio.TooSlowError) else str(error)
            host = urllib.parse.urlsplit(url).netloc
            raise OAuthError(f"{what} cannot be reached at {host}: {words or type(error).__name__}") from None


def _nonce(response: httpcore.Response) -> str:
    return next((value.decode("latin-1") for name, value in response.headers if name.lower() == b"dpop-nonce"), "")


async def _read(response: httpcore.Response, what: str) -> bytes:
    """Return the body. Stopping by cancellation lets httpcore's generators unwind, where leaving would abandon them."""
    body = bytearray()
    with trio.CancelScope() as scope:
        async for chunk in response.aiter_stream():
            body.extend(chunk)
            if len(body) > MAX_BODY:
                scope.cancel()
    if len(body) > MAX_BODY:
        raise MetadataRefused(f"{what} answered with more than {MAX_BODY} bytes")
    return bytes(body)

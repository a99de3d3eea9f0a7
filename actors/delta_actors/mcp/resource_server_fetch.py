"""Requests of a resource server to its authorisation server: bounded in time and size, no redirects (acceptance 70)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLContext
from urllib.parse import quote_plus, urlencode

import httpx
import trio

from delta_actors.mcp.http_wire import posted
from delta_protocol.mcp.access_tokens import VerificationUnavailable

_LARGEST = 512 << 10
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


@lru_cache(maxsize=1)
def _verification() -> SSLContext:
    """Return the one set of trusted authorities: to read it takes longer than a request."""
    return httpx.create_ssl_context()


class Fetcher:
    """Asks one authorisation server; `timeout` in seconds for a whole request.

    A connection lives for one request: keys are asked for every few minutes and introspection answers are kept, and so
    there is nothing that somebody would have to close.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._verify = _verification()
        self.requests = 0

    async def get(self, url: str) -> bytes:
        """Return the document at `url`. Raises `VerificationUnavailable`."""
        return await self._request(url, _HEADERS, b"")

    async def post_form(self, url: str, form: Mapping[str, str], client_id: str, secret: str) -> bytes:
        """Post `form` and return the answer; with a client id by HTTP Basic (RFC 6749 2.3.1)."""
        headers = dict(_HEADERS)
        if client_id:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        headers["content-type"] = "application/x-www-form-urlencoded"
        return await self._request(url, headers, urlencode(form).encode())

    async def _request(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        self.requests += 1
        host = httpx.URL(url).host
        try:
            with trio.fail_after(self._timeout):
                async with httpx.AsyncClient(verify=self._verify, timeout=None) as http:  # noqa: S113 - bounded above
                    request = posted(http, url, body, headers) if body else http.stream("GET", url, headers=headers)
                    async with request as response:
                        if response.status_code != 200:
                            raise _unavailable(f"{host} answered {response.status_code}")
                        return await _read(response, host)
        except trio.TooSlowError:
            raise _unavailable(f"{host} did not answer within {self._timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _unavailable(f"{host} cannot be reached: {error or type(error).__name__}") from None


async def _read(response: httpx.Response, host: str) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _unavailable(f"{host} answered in an encoding that was not asked for")
    body = bytearray()
    try:
        async for part in response.aiter_raw():
            body += part
            if len(body) > _LARGEST:
                # Ends the iteration from within: httpx's generators must not be left in their middle under trio.
                await response.aclose()
    except (httpx.HTTPError, httpx.StreamError):
        if len(body) <= _LARGEST:
            raise
    if len(body) > _LARGEST:
        raise _unavailable(f"{host} answered more than {_LARGEST} bytes")
    return bytes(body)


def _unavailable(reason: str) -> VerificationUnavailable:
    return VerificationUnavailable(f"tokens cannot be verified now: {reason}", retry_after=1)

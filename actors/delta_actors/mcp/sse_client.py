"""The client of the oldest HTTP transport (2024-11-05): one event stream for all answers, and a POST for each message.

Met where a server refuses the POST of a newer client (spec 2.3, step 6).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import httpx
import trio

from delta_actors.mcp.background import background
from delta_actors.mcp.client import DeltaClient
from delta_actors.mcp.client_calls import OpenCall
from delta_actors.mcp.http_parameters import HttpParameters
from delta_actors.mcp.http_wire import ERROR_BODY, posted, read_bounded, read_chunks
from delta_actors.mcp.message_client import MessageClient
from delta_actors.mcp.settling import initialize
from delta_protocol.mcp.errors import McpError, NoReply, NotSent
from delta_protocol.mcp.handshake import Agreement, ClientIdentity, NotUnderstood
from delta_protocol.mcp.lines import LineTooLong
from delta_protocol.mcp.sse import Event, EventTooLong, SseParser

REFUSED = frozenset({400, 404, 405})
"""Statuses of a refused `initialize` after which this transport is tried."""
_KEPT = 4096
"""Messages that may wait to be read; a server that sends more is let go."""


class SseClient(MessageClient):
    """JSON-RPC over an event stream and posts to the endpoint that it names first."""

    def __init__(self, http: httpx.AsyncClient, url: str, headers: Mapping[str, str], max_event: int) -> None:
        super().__init__()
        self._http = http
        self._url = url
        self._headers = dict(headers)
        self._max_event = max_event
        self._arrived, self._arriving = trio.open_memory_channel[bytes](_KEPT)
        self._endpoint = ""
        self._why = "the server ended the event stream"
        self.opened = trio.Event()
        """Set once the endpoint is known, or there is no stream."""

    @property
    def endpoint(self) -> str:
        """Where messages are posted; empty where the server named no place."""
        return self._endpoint

    async def watch(self) -> None:
        """Read the stream until it ends."""
        try:
            headers = {**self._headers, "accept": "text/event-stream"}
            async with self._http.stream("GET", self._url, headers=headers) as response:
                media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if response.status_code != 200 or media != "text/event-stream":
                    self._why = f"HTTP {response.status_code} in place of an event stream"
                    return
                await read_chunks(response, self._reader())
        except httpx.HTTPError as error:
            self._why = f"the event stream broke: {error or type(error).__name__}"
        finally:
            self.opened.set()
            self._arrived.close()

    def _reader(self) -> Callable[[bytes, trio.CancelScope], None]:
        parser = SseParser(self._max_event)

        def feed(chunk: bytes, scope: trio.CancelScope) -> None:
            try:
                for event in parser.feed(chunk):
                    self._hear(event)
            except (EventTooLong, trio.WouldBlock, ValueError) as error:
                self._why = f"the event stream was left: {error or 'too many messages wait'}"
                scope.cancel()

        return feed

    def _hear(self, event: Event) -> None:
        if event.event == "endpoint" and not self._endpoint:
            named = urljoin(self._url, event.data.decode(errors="replace").strip())
            if urlsplit(named)[:2] != urlsplit(self._url)[:2]:
                raise ValueError(f"the server names an endpoint of another origin: {named}")
            self._endpoint = named
            self.opened.set()
        elif event.event == "message" and event.data:
            self._arrived.send_nowait(event.data)

    async def why_ended(self) -> str:
        """Return why the stream ended."""
        await trio.lowlevel.checkpoint()
        return self._why

    def write_at_once(self, text: bytes) -> bool:  # noqa: ARG002 - of `MessageClient`
        """Send nothing: a post may have to wait."""
        return False

    async def write(self, text: bytes, call: OpenCall | None) -> bool:
        """Post a message. A refused one ends its call; its answer comes by the stream."""
        if call is not None:
            call.sent = True
        headers = {**self._headers, "content-type": "application/json"}
        try:
            async with posted(self._http, self._endpoint, text, headers) as response:
                body = await read_bounded(response, ERROR_BODY)
                if response.status_code >= 300 and call is not None:
                    said = body[:300].decode(errors="replace")
                    call.lose(NotSent(f"HTTP {response.status_code}: {said}", status=response.status_code))
        except httpx.ConnectError as error:
            if call is not None:
                call.lose(NotSent(f"{self._endpoint} cannot be reached: {error}"))
        except (httpx.HTTPError, McpError) as error:
            if call is not None:
                call.lose(NoReply(f"the post to {self._endpoint} broke: {error or type(error).__name__}"))
        return True

    async def receive(self) -> list[bytes | LineTooLong] | None:
        """Return the next message."""
        try:
            return [await self._arriving.receive()]
        except trio.EndOfChannel:
            return None


@asynccontextmanager
async def open_sse(
    http: httpx.AsyncClient, parameters: HttpParameters, refused: NotSent
) -> AsyncGenerator[DeltaClient, None]:
    """Open a legacy session; `refused` is how the server took a newer client's POST.

    Raises `NotSent` with both reasons where there is no such stream within the parameters' `start_timeout`.
    """
    identity = ClientIdentity(parameters.client, parameters.capabilities)
    wire = SseClient(http, parameters.url, parameters.headers, parameters.max_body)
    async with background() as nursery:
        nursery.start_soon(wire.run)
        agreement: Agreement | None = None
        why = f"no session within {parameters.start_timeout:g} s"
        with trio.move_on_after(parameters.start_timeout):
            await wire.opened.wait()
            try:
                agreement = await initialize(wire, identity) if wire.endpoint else None
                why = await wire.why_ended()
            except (McpError, NotUnderstood) as error:
                why = str(error)
        if agreement is None:
            raise NotSent(f"{refused.message}; nor is it a server of 2024-11-05: {why}", status=refused.status)
        client = DeltaClient(wire, agreement, identity)
        wire.on_notification = client.take_notification
        yield client

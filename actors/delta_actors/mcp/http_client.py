"""The Streamable HTTP client: era by `server/discover`; a forgotten legacy session begins again (acceptance 43)."""

from __future__ import annotations

import functools
import itertools
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import msgspec
import trio
from msgspec import Raw

from delta_actors.mcp.background import background
from delta_actors.mcp.client import DeltaClient
from delta_actors.mcp.client_calls import ASKING, OnNotification, OnProgress, OnQuestion, OpenCall
from delta_actors.mcp.http_listen import listen_for_changes
from delta_actors.mcp.http_mirrors import ToolMirrors
from delta_actors.mcp.http_parameters import HttpParameters as HttpParameters
from delta_actors.mcp.http_wire import ERROR_BODY, Post, SessionEnded, exchange, posted, read_bounded
from delta_actors.mcp.sse_client import REFUSED, open_sse
from delta_protocol import jsonrpc
from delta_protocol.codecs.negotiate import Format
from delta_protocol.jsonrpc import METHOD_NOT_FOUND, Json, Notification, Request
from delta_protocol.mcp import delta_mcp, disclosure, handshake, versions
from delta_protocol.mcp.errors import HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, McpError, NoReply, NotSent, RpcError
from delta_protocol.mcp.handshake import Agreement, ClientIdentity, NotUnderstood
from delta_protocol.mcp.http_coding import encode_request
from delta_protocol.mcp.http_ladder import encode_header_value
from delta_protocol.mcp.incoming import decode_member, read_object
from delta_protocol.mcp.outgoing import cancelled_notification

_NO_VERDICT = frozenset({401, 403, 429, 503})
"""Statuses that say nothing about the era (spec 2.3, step 7)."""
_MODERN = frozenset({HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY})
"""Errors that only a modern server has (step 4)."""
_MOST_PAGES = 1000
_COURTESY = 2.0
"""Seconds for what is said to the server after the caller is done: cancel notices, the end of the session."""
_DEFINING = ("tools/list", disclosure.DESCRIBE)
"""Methods whose results have definitions, and with them what is repeated in headers."""


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Built once, on first use: it costs tens of milliseconds of CPU (spec actors 1.1, pitfall 15)."""
    return httpx.create_ssl_context()


class HttpClient:
    """A connection to one endpoint. `request` may be called concurrently."""

    pid = None
    junk_lines = 0
    stderr_tail = ""

    def __init__(self, parameters: HttpParameters, http: httpx.AsyncClient, nursery: trio.Nursery) -> None:
        self._parameters = parameters
        self._identity = ClientIdentity(parameters.client, parameters.capabilities)
        self._http = http
        self._nursery = nursery
        self._ids = itertools.count(1)
        self.on_notification: OnNotification = lambda _method, _params: None
        self.agreement: Agreement | None = None
        self.session: str | None = None
        self._form = Format.JSON
        self._renewing = trio.Lock()
        self._mirrors = ToolMirrors()
        self.describes = False
        """Whether the server describes single tools (extension)."""
        self._asking: set[OpenCall] = set()
        self.listened = trio.Event()

    async def wait_closed(self) -> str:
        """Never returns: without a request nobody knows whether the server is there."""
        await trio.sleep_forever()
        raise AssertionError("not reached")

    async def request(
        self,
        method: str,
        params: Json,
        *,
        on_progress: OnProgress | None = None,
        on_question: OnQuestion | None = None,
        on_notification: OnNotification | None = None,
    ) -> Json:
        """Return the result's JSON text. Raises `RpcError`, `NotSent`, `NoReply`.

        `on_notification` takes what the server tells on the request's own stream. A session that the server forgot
        (the request was not accepted) is begun again, and the request sent once more. Cancelling closes the stream,
        which is the cancel of the modern era; a legacy server is told. A call whose headers the server finds wrong
        (-32020: not carried out) is sent once more after a new look at the tools.
        """

        async def send() -> Json:
            return await self._exchange(method, params, on_progress, on_question, on_notification)

        session = self.session
        try:
            return await send()
        except SessionEnded:
            await self._renew(session)
        except RpcError as error:
            if error.code != HEADER_MISMATCH or method != "tools/call":
                raise
            await self._look_again(params)
        try:
            return await send()
        except SessionEnded:
            raise NotSent("the server ends every session at once", status=404) from None

    async def _look_again(self, call: Json) -> None:
        """Find out what the called tool's annotations are now: from its description, or from the whole list."""
        name = read_object(call, "params").get("name")
        if self.describes and name is not None:
            params = msgspec.json.encode({"names": [name]})
            meta = self._identity.modern_meta(versions.LATEST_MODERN)
            await self._exchange(disclosure.DESCRIBE, handshake.with_meta(params, meta), None, None, None)
            return
        cursor: Raw | None = None
        for _ in range(_MOST_PAGES):
            params = msgspec.json.encode({} if cursor is None else {"cursor": cursor})
            meta = self._identity.modern_meta(versions.LATEST_MODERN)
            page = await self._exchange("tools/list", handshake.with_meta(params, meta), None, None, None)
            cursor = read_object(page, "tools/list").get("nextCursor")
            if cursor is None:
                return

    async def _exchange(
        self,
        method: str,
        params: Json,
        on_progress: OnProgress | None,
        on_question: OnQuestion | None,
        on_notification: OnNotification | None,
    ) -> Json:
        identity = next(self._ids)
        if on_progress is not None:
            params = handshake.with_meta(params, {versions.META_PROGRESS_TOKEN: identity})
        call = OpenCall(
            may_ask=method in ASKING,
            on_progress=on_progress,
            on_question=on_question,
            on_notification=on_notification,
        )
        body, form = encode_request(self._form, jsonrpc.encode_request(identity, method, params))
        headers = self.headers(method, params) | form
        post = Post(self._parameters.url, headers, body, identity, self._parameters.max_body, self.session is not None)
        ended: list[SessionEnded] = []
        if call.may_ask and on_question is not None:
            self._asking.add(call)
            if self.session is not None:
                # Some servers ask on the session's own stream, and what they say before it is open is lost.
                with trio.move_on_after(_COURTESY):
                    await self.listened.wait()
        try:
            async with background() as nursery:
                nursery.start_soon(self._carry, post, call, nursery, ended)
                result = await call.result()
            return self._mirrors.learn(result) if method in _DEFINING and self._modern else result
        except NotSent:
            if ended:
                raise ended[0] from None
            raise
        finally:
            self._asking.discard(call)
            # However it came: a nursery hands on a cancellation as a group, and a callback may have failed.
            if not call.done and self.session is not None:
                self._nursery.start_soon(self.tell, cancelled_notification(identity, "cancelled by the caller"))

    async def _carry(self, post: Post, call: OpenCall, nursery: trio.Nursery, ended: list[SessionEnded]) -> None:
        def take(message: Request | Notification) -> None:
            if isinstance(message, Request):
                nursery.start_soon(self._answer, message, call)
            else:
                (call.on_notification or self.on_notification)(message.method, message.params)

        try:
            await exchange(self._http, post, call, take)
        except SessionEnded as error:
            ended.append(error)
            call.lose(NotSent("the server does not know the session", status=404))

    async def _answer(self, request: Request, call: OpenCall) -> None:
        """Answer what the server asks on the stream of `call`."""
        try:
            if request.method == "ping":
                text = jsonrpc.encode_result(request.id, b"{}")
            elif request.method not in versions.QUESTIONS or call.on_question is None:
                text = jsonrpc.encode_error(request.id, METHOD_NOT_FOUND, f"{request.method}: nobody answers here")
            else:
                text = jsonrpc.encode_result(request.id, await call.ask(request.method, request.params))
        except RpcError as error:
            text = jsonrpc.encode_error(request.id, error.code, error.message, error.data)
        except McpError as error:
            text = jsonrpc.encode_error(request.id, METHOD_NOT_FOUND, error.message)
        except trio.EndOfChannel:
            return
        await self.tell(text)

    async def answer_unnamed(self, request: Request) -> None:
        """Answer what a legacy server asks on its own stream: for the one call in progress that takes questions.

        With none or several of them nobody knows whom it asks, and it is refused (spec 7).
        """
        if len(self._asking) == 1:
            await self._answer(request, next(iter(self._asking)))
        elif request.method == "ping":
            await self.tell(jsonrpc.encode_result(request.id, b"{}"))
        else:
            reason = f"{request.method}: no single call in progress takes questions"
            await self.tell(jsonrpc.encode_error(request.id, METHOD_NOT_FOUND, reason))

    @property
    def _modern(self) -> bool:
        return self.agreement is not None and self.agreement.era == "modern"

    async def tell(self, text: bytes) -> None:
        """Post a message that has no response; a failure shows in what follows, if it matters."""
        with trio.move_on_after(_COURTESY):
            try:
                body, form = encode_request(self._form, text)
                headers = self.headers("", b"{}") | form
                async with posted(self._http, self._parameters.url, body, headers) as response:
                    await read_bounded(response, ERROR_BODY)
            except (httpx.HTTPError, McpError):
                return

    def headers(self, method: str, params: Json) -> dict[str, str]:
        """Return what mirrors the request, and what the era needs (spec 1.5, 3.7)."""
        headers = {
            **self._parameters.headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        agreement = self.agreement
        if agreement is not None:
            headers[versions.HEADER_VERSION] = agreement.version
        if self.session is not None:
            headers[versions.HEADER_SESSION] = self.session
        if agreement is not None and agreement.era == "modern" and method:
            headers[versions.HEADER_METHOD] = method
            member = versions.NAMED_BY.get(method)
            name = decode_member(read_object(params, "params"), member) if member is not None else None
            if isinstance(name, str):
                headers[versions.HEADER_NAME] = encode_header_value(name)
                if method == "tools/call":
                    headers |= self._mirrored(name, params)
        return headers

    def _mirrored(self, name: str, params: Json) -> dict[str, str]:
        try:
            return self._mirrors.headers(name, bytes(read_object(params, "params").get("arguments", b"{}")))
        except ValueError as error:
            raise NotSent(f"{name}: {error}") from None

    async def discover(self) -> Agreement | None:
        """Ask for the era. None: only the legacy handshake can still tell. Raises `NotSent` where it proves nothing."""
        try:
            with trio.move_on_after(self._parameters.probe_timeout):
                return await self._discover(versions.LATEST_MODERN)
        except RpcError as error:
            if error.code in _MODERN:
                raise
            offered = handshake.versions_offered(error)
            if offered is not None:
                handshake.choose_modern(offered)
        except NotSent as error:
            if error.status is None or error.status in _NO_VERDICT:
                raise
        except NoReply as error:
            if error.status is not None and error.status >= 500:
                raise
        except NotUnderstood:
            return None
        finally:
            self.agreement = None
        return None

    async def _discover(self, version: str) -> Agreement | None:
        """Ask in `version`, and once more in the one that the server would rather have (-32022, spec 1.5)."""
        for attempt in (version, None):
            self.agreement = Agreement("modern", version)
            params = handshake.with_meta(b"{}", self._identity.modern_meta(version))
            try:
                return handshake.read_discover(await self.request("server/discover", params))
            except RpcError as error:
                offered = handshake.versions_offered(error) or []
                common = [known for known in versions.MODERN_VERSIONS if known in offered]
                if not common or attempt is None:
                    raise
                version = common[0]
        return None

    async def initialize(self) -> Agreement:
        """Do the legacy handshake and keep its session. Raises what `request` raises, and `NotUnderstood`."""
        self.agreement = self.session = None
        self._form = Format.JSON
        peer = self._parameters.era == "delta-mcp"
        opened: list[str] = []
        call = OpenCall(may_ask=False, on_progress=None, on_question=None)
        identity = next(self._ids)
        params = self._identity.initialize_params()
        if peer:
            params = delta_mcp.initialize_params(self._identity, delta_mcp.OVER_HTTP)
        body = jsonrpc.encode_request(identity, "initialize", params)
        post = Post(
            self._parameters.url, self.headers("initialize", b"{}"), body, identity, self._parameters.max_body, False
        )
        await exchange(self._http, post, call, lambda _message: None, opened.append)
        result = await call.result()
        met = delta_mcp.read_initialize_result(result, delta_mcp.OVER_HTTP) if peer else None
        if met is not None:
            agreement, self._form = met
        else:
            agreement = handshake.read_initialize_result(result)
        self.agreement = agreement
        self.session = opened[0] if opened else None
        await self.tell(jsonrpc.encode_notification("notifications/initialized"))
        return agreement

    async def _renew(self, lost: str | None) -> None:
        """Begin the session again, once for however many requests found it gone."""
        async with self._renewing:
            if self.session != lost:
                return
            try:
                await self.initialize()
            except (RpcError, NoReply, NotUnderstood) as error:
                raise NotSent(f"the session ended and cannot be begun again: {error}") from None

    async def close(self) -> None:
        """End a legacy session at the server. Bounded, and not cut by cancellation."""
        if self.session is None:
            return
        with trio.move_on_after(_COURTESY, shield=True):
            try:
                headers = self.headers("", b"{}")
                async with self._http.stream("DELETE", self._parameters.url, headers=headers) as response:
                    await read_bounded(response, ERROR_BODY)
            except (httpx.HTTPError, McpError):
                return


@asynccontextmanager
async def open_http(parameters: HttpParameters) -> AsyncGenerator[DeltaClient, None]:
    """Open a session with the server at `parameters.url`; on leaving, end it.

    Raises `NotSent` where it cannot be reached, refuses us, or does not speak the protocol within `start_timeout`.
    """
    timeout = httpx.Timeout(None, connect=parameters.connect_timeout)
    verify = _ssl_context() if parameters.url.startswith("https:") else False
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    async with (
        httpx.AsyncClient(verify=verify, timeout=timeout, limits=limits, auth=parameters.auth) as http,
        background() as nursery,
    ):
        wire = HttpClient(parameters, http, nursery)
        agreement: Agreement | None = None
        refused: NotSent | None = None
        try:
            with trio.fail_after(parameters.start_timeout):
                agreement = await _settle(wire, parameters)
        except trio.TooSlowError:
            raise NotSent(f"{parameters.url}: no session within {parameters.start_timeout:g} s") from None
        except NotSent as error:
            if parameters.era in ("modern", "delta-mcp") or error.status not in REFUSED:
                raise
            refused = error
        if agreement is None:
            assert refused is not None
            async with open_sse(http, parameters, refused) as client:
                yield client
            return
        wire.describes = disclosure.offered_describe(agreement.capabilities) > 0
        client = DeltaClient(wire, agreement, ClientIdentity(parameters.client, parameters.capabilities))
        wire.on_notification = client.take_notification
        nursery.start_soon(listen_for_changes, wire, http, parameters.url, agreement, client)
        try:
            yield client
        finally:
            await wire.close()


async def _settle(wire: HttpClient, parameters: HttpParameters) -> Agreement:
    try:
        agreement = None if parameters.era in ("legacy", "delta-mcp") else await wire.discover()
        if agreement is None:
            return await wire.initialize()
    except (RpcError, NoReply, NotUnderstood) as error:
        raise NotSent(f"{parameters.url} does not speak the protocol: {error}") from None
    wire.agreement = agreement
    return agreement
